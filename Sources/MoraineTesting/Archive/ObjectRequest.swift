public import MoraineArchive

/// A request to a store of objects.
public struct ObjectRequest: Hashable, Sendable, CustomStringConvertible {
  /// The method of `ObjectStore` that was called.
  public enum Verb: String, CaseIterable, Hashable, Sendable {
    /// A method of `ObjectStore`.
    case create, put, get, remove, list

    /// Whether the request can change the store.
    public var isWrite: Bool { self == .create || self == .put || self == .remove }
  }

  /// Number of the request, from 0.
  public let index: Int
  /// The method that was called.
  public let verb: Verb
  /// The object; for ``Verb/remove`` the first of the objects, for ``Verb/list`` the prefix.
  public let object: ObjectName
  /// Number of earlier requests with the same verb and object.
  public let repetition: Int

  public var description: String { "#\(index) \(verb.rawValue) \(object), \(repetition) before" }
}

/// The fault of a request.
public enum ObjectFault: Sendable {
  /// The request has its effect, and its answer is lost: the caller gets `.unavailable`.
  case answerLost
  /// The request is lost without an effect. The caller cannot distinguish that from
  /// ``answerLost``.
  case requestLost
  /// The caller gets `.unavailable`, and the request has its effect later: before the request that
  /// is made the given number of requests later. For nil,
  /// ``SimulatedObjectStore/deliverDelayed(_:)`` chooses the moment.
  case delayed(requests: Int?)
  /// The store refuses the request, which has no effect.
  case refused(ObjectStoreError.Code)
  /// A request to ``ObjectRequest/Verb/remove`` removes only this number of its objects, the first
  /// ones, and its answer is lost. The stores that ship remove one object after the other, so any
  /// interruption leaves such a part. Other requests have no fault.
  case partial(count: Int)
  /// An answer to ``ObjectRequest/Verb/get`` has the given number of bytes at most. Other requests
  /// have no fault.
  case torn(lengthBytes: Int)
  /// An answer to ``ObjectRequest/Verb/list`` has the names that the last list without this fault
  /// saw. Other requests have no fault.
  case stale
  /// The request waits until the gate opens, and then performs its work. When its task is cancelled
  /// before, it has no effect.
  case hang(RequestGate)
  /// The request performs its work, and its answer waits until the gate opens. When its task is
  /// cancelled before, the answer is lost.
  case hangAfterEffect(RequestGate)
}

extension ObjectFault {
  /// Returns a script that draws a fault for some requests.
  ///
  /// The draw depends on the seed, the verb, the object and the number of earlier requests with
  /// both. So concurrent tasks do not change each other's faults.
  ///
  /// - Parameters:
  ///   - seed: print it when a test fails.
  ///   - percent: the chance of a fault for each request, from 0 to 100.
  ///   - faults: the faults, which are equally likely.
  public static func random(
    seed: UInt64, percent: Int, _ faults: [ObjectFault]
  ) -> SimulatedObjectStore.Script {
    precondition((0...100).contains(percent), "a chance lies between 0 and 100 percent")
    precondition(!faults.isEmpty, "a script of random faults has no fault to draw")
    return { request in
      var generator = SeededGenerator(seed: seed ^ digest(request))
      guard Int.random(in: 0..<100, using: &generator) < percent else { return nil }
      return faults.randomElement(using: &generator)
    }
  }

  /// A digest of a request that is the same in each process: FNV-1a (Fowler, Noll, Vo).
  private static func digest(_ request: ObjectRequest) -> UInt64 {
    let text = "\(request.verb.rawValue) \(request.object) \(request.repetition)"
    return text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
  }
}
