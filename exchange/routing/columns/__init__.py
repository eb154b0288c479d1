"""Route whole columns of messages. Needs numpy and pyarrow (extra ``batch``); imported only where they are used."""
