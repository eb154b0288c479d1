"""Programs that use hashstar, to be read and run."""
