// The types of the format that the store's own interface speaks in. The rest of the format module
// stays out of sight.
@_exported public import struct MoraineFormat.Identifier
@_exported public import enum MoraineFormat.Limits
@_exported public import struct MoraineFormat.SegmentNumber
@_exported public import struct MoraineFormat.SequenceNumber
@_exported public import struct MoraineFormat.StateDigest
