"""Messages of RocketMQ as bytes: stored records and offset ids, for stores on disk and for the client alike."""
