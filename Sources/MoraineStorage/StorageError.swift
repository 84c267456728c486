package import SystemPackage

/// An input or output operation that failed: what, on which file, and the kernel's word.
package struct StorageError: Error, Sendable {
  package var operation: String
  package var file: String
  package var errno: Errno
  package var offset: UInt64?

  package init(_ operation: String, file: String, errno: Errno, offset: UInt64? = nil) {
    self.operation = operation
    self.file = file
    self.errno = errno
    self.offset = offset
  }

  /// The disk, or the user's part of it, is full.
  package var isNoSpace: Bool { errno == .noSpace || errno == .diskQuotaExceeded }

  /// The process, its user or the system has as many threads, descriptors, mappings or pages as it
  /// may have. Nothing is wrong with the disk.
  package var isLimit: Bool {
    switch errno {
    case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory, .resourceTemporarilyUnavailable:
      true
    default: false
    }
  }

  /// The process or the system has as many open files as it may have. No call answers so that has
  /// read, written or synced anything.
  package var lacksDescriptor: Bool {
    errno == .tooManyOpenFiles || errno == .tooManyOpenFilesInSystem
  }

  /// The name leads to another file, or to none, than when it was opened first.
  package var isReplaced: Bool { errno == .staleNFSFileHandle }

  /// The file system cannot do this at all; another way must be taken.
  ///
  /// Linux answers ENODEV where a file system has no shared mappings, as many in user space (FUSE).
  package var isUnsupported: Bool {
    switch errno {
    case .notSupported, .noFunction, .invalidArgument, .operationNotSupportedByDevice: true
    default: false
    }
  }
}
