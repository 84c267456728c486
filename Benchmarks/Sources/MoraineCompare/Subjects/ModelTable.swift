import BenchmarkSupport
import CPeers

/// A table of models in SQLite, used without a library between.
struct ModelTable {
  private let api = peer_sqlite_models
  private let table: OpaquePointer

  init(_ path: String) throws {
    if let problem = api.load() { throw PeerError(description: String(cString: problem)) }
    guard let table = api.open(path) else { throw Self.error }
    self.table = table
  }

  private static var error: PeerError {
    PeerError(
      description: peer_sqlite_models.message().map { String(cString: $0) } ?? "unknown error")
  }

  private func check(_ code: Int32) throws {
    if code != 0 { throw Self.error }
  }

  func batch(_ body: () throws -> Void) throws {
    try check(api.begin(table))
    try body()
    try check(api.commit(table))
  }

  func save(_ user: BenchmarkUser) throws {
    var (name, email) = (user.name, user.email)
    try name.withUTF8 { name in
      try email.withUTF8 { email in
        var model = peer_model(
          id: Int64(user.id), name: peer_bytes(UnsafeRawBufferPointer(name)),
          email: peer_bytes(UnsafeRawBufferPointer(email)), score: user.score,
          is_active: user.isActive)
        try check(api.save(table, &model))
      }
    }
  }

  func find(_ email: String) throws -> BenchmarkUser? {
    var (email, found) = (email, [BenchmarkUser]())
    try email.withUTF8 { email in
      try withUnsafeMutablePointer(to: &found) {
        try check(
          api.find(table, peer_bytes(UnsafeRawBufferPointer(email)), Self.append, $0))
      }
    }
    return found.first
  }

  func range(from low: Double, limit: Int) throws -> [BenchmarkUser] {
    var found: [BenchmarkUser] = []
    try withUnsafeMutablePointer(to: &found) {
      try check(api.range(table, low, Int64(limit), Self.append, $0))
    }
    return found
  }

  func count(_ range: Range<Double>) throws -> Int {
    var number: Int64 = 0
    try check(api.count(table, range.lowerBound, range.upperBound, &number))
    return Int(number)
  }

  func close() throws { try check(api.close(table)) }

  private static let append:
    @convention(c) (UnsafeMutableRawPointer?, UnsafePointer<peer_model>?) -> Void = {
      context, model in
      guard let context, let model = model?.pointee else { return }
      var user = BenchmarkUser(Int(model.id))
      user.name = String(decoding: model.name.buffer, as: UTF8.self)
      user.email = String(decoding: model.email.buffer, as: UTF8.self)
      user.score = model.score
      user.isActive = model.is_active
      context.assumingMemoryBound(to: [BenchmarkUser].self).pointee.append(user)
    }
}
