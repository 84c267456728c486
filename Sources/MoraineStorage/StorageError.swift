package import SystemPackage

/// A failed input or output operation: the operation, the file and the kernel's error.
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

  /// Whether the disk, or the user's part of it, is full.
  package var isNoSpace: Bool { errno == .noSpace || errno == .diskQuotaExceeded }

  /// Whether the process, its user or the system has reached its limit of threads, descriptors,
  /// mappings or pages. The disk has no error then.
  package var isLimit: Bool {
    switch errno {
    case .tooManyOpenFiles, .tooManyOpenFilesInSystem, .noMemory, .resourceTemporarilyUnavailable:
      true
    default: false
    }
  }

  /// Whether the process or the system has reached its limit of open files. A call that fails with
  /// this error has not read, written or synced anything.
  package var lacksDescriptor: Bool {
    errno == .tooManyOpenFiles || errno == .tooManyOpenFilesInSystem
  }

  /// Whether the name now leads to another file than when it was first opened, or to none.
  package var isReplaced: Bool { errno == .staleNFSFileHandle }

  /// Whether the file system cannot do this at all; the caller must use another way.
  ///
  /// Linux returns ENODEV where a file system has no shared mappings, as many in user space (FUSE).
  package var isUnsupported: Bool {
    switch errno {
    case .notSupported, .noFunction, .invalidArgument, .operationNotSupportedByDevice: true
    default: false
    }
  }
}
