import CPeers
import Foundation

/// Makes stores of an engine in C.
struct PeerMaker: SubjectMaker {
  private let api: PeerInterface
  let engine: Report.Engine

  /// - Parameter interface: functions of an engine whose library may not be installed.
  init(_ interface: peer_api) {
    let problem = interface.load().map { String(cString: $0) }
    api = PeerInterface(interface)
    engine = Report.Engine(
      name: String(cString: interface.name), title: String(cString: interface.title),
      version: problem == nil ? String(cString: interface.version()!) : "",
      settings: String(cString: interface.settings), missing: problem)
  }

  static var all: [PeerMaker] {
    [peer_rocksdb, peer_leveldb, peer_lmdb, peer_sqlite, peer_tkrzw].map { PeerMaker($0) }
  }

  func open(in path: String, _ options: SubjectOptions) throws -> PeerSubject {
    var given = peer_options()
    given.sync = options.sync
    given.appends = options.appends
    given.lifetime_seconds = Int32(options.lifetimeSeconds)
    given.expected_count = UInt64(options.expectedCount)
    given.expected_bytes = UInt64(options.expectedBytes)
    let store = try withUnsafePointer(to: given) { given in
      try api.made(api.open("\(path)/store", given))
    }
    return PeerSubject(api, store)
  }
}

struct PeerError: Error, CustomStringConvertible {
  let description: String
}

/// The functions of one engine, which are looked up once.
///
/// Safety of `@unchecked Sendable`: they are addresses of code and of constants.
struct PeerInterface: @unchecked Sendable {
  let open: @convention(c) (UnsafePointer<CChar>?, UnsafePointer<peer_options>?) -> OpaquePointer?
  let close: @convention(c) (OpaquePointer?) -> Int32
  let put: @convention(c) (OpaquePointer?, peer_bytes, peer_bytes) -> Int32
  let remove: @convention(c) (OpaquePointer?, peer_bytes) -> Int32
  let begin: (@convention(c) (OpaquePointer?) -> Int32)?
  let commit: (@convention(c) (OpaquePointer?) -> Int32)?
  let compact: (@convention(c) (OpaquePointer?) -> Int32)?
  let reader: @convention(c) (OpaquePointer?) -> OpaquePointer?
  let refresh: (@convention(c) (OpaquePointer?) -> Int32)?
  let get: @convention(c) (OpaquePointer?, peer_bytes, UnsafeMutablePointer<peer_bytes>?) -> Int32
  let scan:
    @convention(c) (
      OpaquePointer?, peer_bytes, Bool,
      (@convention(c) (UnsafeMutableRawPointer?, peer_bytes, peer_bytes) -> Bool)?,
      UnsafeMutableRawPointer?
    ) -> Int32
  let closeReader: @convention(c) (OpaquePointer?) -> Void
  private let message: @convention(c) () -> UnsafePointer<CChar>?

  /// Takes functions that fail where the engine was not loaded.
  init(_ api: peer_api) {
    open = api.open ?? { _, _ in nil }
    close = api.close ?? { _ in -1 }
    put = api.put ?? { _, _, _ in -1 }
    remove = api.remove ?? { _, _ in -1 }
    (begin, commit, compact, refresh) = (api.begin, api.commit, api.compact, api.refresh)
    reader = api.reader ?? { _ in nil }
    get = api.get ?? { _, _, _ in -1 }
    scan = api.scan ?? { _, _, _, _, _ in -1 }
    closeReader = api.close_reader ?? { _ in }
    message = api.message ?? { nil }
  }

  @inline(__always)
  func check(_ code: Int32) throws {
    if code != 0 { throw error }
  }

  func made(_ pointer: OpaquePointer?) throws -> OpaquePointer {
    guard let pointer else { throw error }
    return pointer
  }

  var error: PeerError {
    PeerError(description: message().map { String(cString: $0) } ?? "it is not loaded")
  }
}

extension peer_bytes {
  @inline(__always)
  init(_ bytes: UnsafeRawBufferPointer) {
    self.init(bytes: bytes.baseAddress, length: bytes.count)
  }

  @inline(__always)
  var buffer: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: bytes, count: length) }
}
