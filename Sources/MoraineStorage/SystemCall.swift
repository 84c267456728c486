import SystemPackage

/// The only place where interrupted and short calls are completed.
package enum SystemCall {
  /// Runs a call of the C shim, which returns `-errno` on failure, until no signal interrupts it.
  /// Where the call finds no free descriptor, parks a descriptor that no call uses and tries again.
  package static func retrying<Result: SignedInteger>(
    _ operation: String, _ file: String, at offset: UInt64? = nil, _ call: () -> Result
  ) throws(StorageError) -> Result {
    while true {
      let result = call()
      if result >= 0 { return result }
      let errno = Errno(rawValue: CInt(-result))
      if errno == .interrupted { continue }
      let lacksDescriptor = errno == .tooManyOpenFiles || errno == .tooManyOpenFilesInSystem
      if lacksDescriptor, DescriptorPool.current.park() { continue }
      throw StorageError(operation, file: file, errno: errno, offset: offset)
    }
  }

  /// Repeats a positional call until `count` bytes are done or the call returns 0.
  package static func completing(
    _ operation: String, _ file: String, count: Int, at offset: UInt64,
    _ call: (_ done: Int) -> Int
  ) throws(StorageError) -> Int {
    var done = 0
    while done < count {
      let place = offset + UInt64(done)
      let moved = try retrying(operation, file, at: place) { call(done) }
      if moved == 0 { break }
      done += moved
    }
    return done
  }

  /// Does the same as ``completing(_:_:count:at:_:)``, but throws unless all bytes are done.
  package static func completingAll(
    _ operation: String, _ file: String, count: Int, at offset: UInt64,
    _ call: (_ done: Int) -> Int
  ) throws(StorageError) {
    let done = try completing(operation, file, count: count, at: offset, call)
    guard done == count else {
      throw StorageError(operation, file: file, errno: .ioError, offset: offset + UInt64(done))
    }
  }
}
