import MoraineFormat
import MoraineStorage

extension Store {
  /// Waits while another writer makes room.
  func passGate() async throws(StoreError) {
    while isMakingRoom {
      await withUnsafeContinuation { gate.append($0) }
    }
    if isClosed { throw StoreError(.closed, "the store was closed; open it again") }
  }

  /// Runs the attempt, making room for it until there is enough. No other writer comes between the
  /// attempts.
  func withRoom<Value>(
    isDelete: Bool = false,
    _ attempt: (inout EngineState) throws(StoreError) -> Outcome<Value>
  ) async throws(StoreError) -> Value {
    if engine != nil, case .done(let value) = try attempt(&engine!) { return value }
    isMakingRoom = true
    defer { openGate() }
    if engine == nil { try await beginStore() }
    while true {
      switch try attempt(&engine!) {
      case .done(let value): return value
      case .needsRoom(let count): try await makeRoom(for: count, isDelete: isDelete)
      }
    }
  }

  func openGate() {
    isMakingRoom = false
    let waiting = gate
    gate = []
    for continuation in waiting { continuation.resume() }
  }

  /// Makes the store on disk; somebody else may have done so since this one was opened.
  private func beginStore() async throws(StoreError) {
    let opener = opener
    let box = try await pipeline.run { () throws(StoreError) in
      EngineBox(try opener.open(creating: true))
    }
    engine = box.take()
  }

  private func makeRoom(for count: Int, isDelete: Bool) async throws(StoreError) {
    do throws(StoreError) {
      try await keepReserve(isDelete: isDelete)
      try await makeRoomOnce(for: count)
    } catch {
      guard isDelete, error.code == .noSpace else { throw error }
      // The space kept back is for just this: deletes on a full disk.
      try storing { () throws(StorageError) in try engine!.reserve.release() }
      try await makeRoomOnce(for: count)
    }
  }

  /// - Returns: whether there was any space to give up.
  func releaseReserve() throws(StoreError) -> Bool {
    guard engine != nil, engine!.reserve.isKept else { return false }
    try storing { () throws(StorageError) in try engine!.reserve.release() }
    return true
  }

  /// Puts must not use up what deletes were promised.
  private func keepReserve(isDelete: Bool) async throws(StoreError) {
    let reserve = engine!.reserve
    if isDelete || reserve.isKept { return }
    let now = try await pipeline.run { () throws(StoreError) in
      var kept = reserve
      try storing { () throws(StorageError) in try kept.keep() }
      return kept
    }
    engine!.reserve = now
  }

  private func makeRoomOnce(for count: Int) async throws(StoreError) {
    if engine!.room(for: count) == .extend, let active = engine!.active,
      let targets = engine!.extensionTargets(for: count), let allocated = active.allocated
    {
      let work = ExtensionWork(
        file: active.file, mapping: active.mapping, from: allocated, wish: targets.wish,
        least: targets.least)
      let end = try await pipeline.run { () throws(StoreError) in
        try storing { () throws(StorageError) in try work.run() }
      }
      engine!.extended(to: end)
      return
    }
    try await rotate(for: count)
  }

  /// Seals the active segment and begins the next. The old one is durable and listed as sealed
  /// before anything in the new one is acknowledged.
  private func rotate(for count: Int) async throws(StoreError) {
    let pipeline = pipeline
    let seal = try engine!.sealActive()
    if let seal { try await pipeline.run { () throws(StoreError) in try seal.run(pipeline) } }
    let birth = engine!.nextBirth(for: count)
    let child = try await pipeline.run { () throws(StoreError) in try birth.run(pipeline) }
    engine!.adopt(child, birth)
    let next = engine!.nextManifest()
    let publisher = engine!.publisher()
    do throws(StoreError) {
      try await pipeline.run { () throws(StoreError) in try publisher.publish(next) }
    } catch {
      engine!.abandonActive()
      throw error
    }
    engine!.manifest = next
    let length = UInt64(birth.header.headerLength)
    pipeline.begin(file: child.file, sequence: next.lastSequence.rawValue, offset: length)
  }
}
