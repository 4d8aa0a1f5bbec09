package filter

// standardPinned is the block of four keys, with 64 bits and 7 hash functions: it is on disk and may not change.
const standardPinned = ""
