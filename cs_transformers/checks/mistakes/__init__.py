"""Wrong bodies, one file each, by exercise: what students write, and the sentence that tells them why it is wrong."""
