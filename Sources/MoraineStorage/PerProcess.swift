import Synchronization

/// A place for an object that each process has one of.
///
/// A forked child has none of its parent's threads, and a lock of its parent's object may be held
/// for ever. So the child creates a new object and does not touch the parent's object.
package struct PerProcess<Object: OfOneProcess>: ~Copyable, Sendable {
  /// The address of the object; 0 before the object exists.
  private let place = Atomic<UInt>(0)

  package init() {}

  package var current: Object {
    while true {
      // Acquiring, with the releasing exchange below: a thread that reads the address sees the
      // complete object.
      let known = place.load(ordering: .acquiring)
      if let pointer = UnsafeRawPointer(bitPattern: known) {
        let object = Unmanaged<Object>.fromOpaque(pointer).takeUnretainedValue()
        if object.forkGeneration == CurrentProcess.forkGeneration { return object }
      }
      CurrentProcess.watchForks()
      let made = Unmanaged.passRetained(Object())
      let (isPlaced, _) = place.compareExchange(
        expected: known, desired: UInt(bitPattern: made.toOpaque()),
        ordering: .acquiringAndReleasing)
      if !isPlaced { made.release() }
    }
  }
}

package protocol OfOneProcess: AnyObject, Sendable {
  /// ``CurrentProcess/forkGeneration`` when the object was made.
  var forkGeneration: UInt64 { get }
  init()
}
