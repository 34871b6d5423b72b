"""Everything that is read, made or fetched: the embedded world of shapes, captions, images, features, downloads."""
