import CMoraineShims
package import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Musl)
  import Musl
#else
  import Glibc
#endif

/// A short file that another program has written: keys, for example.
package enum SmallFile {
  /// Reads a whole file. Unlike the files of a store it may be a link: programs that replace keys
  /// often replace a link, because that is one step.
  ///
  /// - Parameters:
  ///   - path: the path of the file.
  ///   - limitBytes: the longest file that is read.
  /// - Returns: the bytes; nil when the path leads to nothing.
  /// - Throws: also for a longer file, a directory, and a pipe. No call waits for a writer.
  package static func read(
    _ path: FilePath, limitBytes: Int
  ) throws(StorageError) -> [UInt8]? {
    precondition(limitBytes >= 0, "the limit of a file is negative")
    guard let descriptor = try open(path) else { return nil }
    defer { close(descriptor) }
    // One more byte shows that the file is longer.
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: limitBytes + 1, alignment: 1)
    defer { buffer.deallocate() }
    guard let base = buffer.baseAddress else { preconditionFailure("a buffer has no bytes") }
    let count = try SystemCall.completing("read", path.string, count: buffer.count, at: 0) { done in
      moraine_pread(descriptor, base + done, buffer.count - done, off_t(done))
    }
    guard count <= limitBytes else {
      throw StorageError("read", file: path.string, errno: .fileTooLarge)
    }
    return Array(buffer.prefix(count))
  }

  /// Returns a descriptor, which the caller closes; nil when the path leads to nothing.
  private static func open(_ path: FilePath) throws(StorageError) -> CInt? {
    do throws(StorageError) {
      return try SystemCall.retrying("open", path.string) { () -> CInt in
        do {
          // Without `nonBlocking` a pipe would wait for its writer.
          return try FileDescriptor.open(
            path, .readOnly, options: [.closeOnExec, .nonBlocking]
          ).rawValue
        } catch {
          return -((error as? Errno) ?? .ioError).rawValue
        }
      }
    } catch {
      if error.errno == .noSuchFileOrDirectory { return nil }
      throw error
    }
  }
}
