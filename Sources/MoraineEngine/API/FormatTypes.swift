@_exported public import struct MoraineFormat.SegmentNumber
@_exported public import struct MoraineFormat.SequenceNumber
@_exported public import struct MoraineFormat.StateDigest
// Types of the format that the store's public interface uses. The rest of the format module stays
// hidden.
@_exported public import struct MoraineFormat.StoreIdentifier
@_exported public import enum MoraineFormat.StoreLimits
