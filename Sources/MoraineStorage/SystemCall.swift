import SystemPackage

/// The one place where interrupted and short calls are completed.
package enum SystemCall {
  /// Runs a call of the C shim, which answers `-errno`, until no signal interrupts it. Where it
  /// finds no free descriptor, descriptors that no call uses are given back for it.
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

  /// Repeats a positional call until `count` bytes are done or it answers 0.
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

  /// As ``completing(_:_:count:at:_:)``, of a call that must do it all.
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
