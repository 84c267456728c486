import MoraineEngine
import Synchronization
import SystemPackage

/// The settings of one keyspace in this process: the stored values, the boxes that show them, and
/// the queue of settings to be written.
///
/// All settings are in memory. A setting is kept as bytes until its key is first used.
final class PersistedSpace: Sendable {
  /// Returns the path of the store to open, and how to open it.
  typealias Source = @Sendable () throws(StoreError) -> (path: FilePath, request: StoreRequest)

  struct State {
    /// The keyspace; nil when the store could not be opened.
    var keyspace: Keyspace?
    /// The error of the opening; nil when the store could be opened.
    var obstacle: StoreError?
    /// Settings whose keys have no box yet.
    var stored: [Key: StoredSetting] = [:]
    var boxes: [Key: any SettingBox] = [:]
    /// The task that follows the keyspace, or has followed it until an error.
    var following: Task<Void, Never>?
    /// Number of that task. What a task with another number has read does not count any more.
    var followingNumber: UInt64 = 0
    /// Whether the following has ended with an error.
    var hasStopped = false
    /// Whether the following has ended with an error that may be over.
    var mayFollowAgain = false
    var queue = SettingQueue()
  }

  let state = Mutex(State())
  /// Name of the place, for messages.
  let place: String
  /// Path and configuration for opening the store again; nil for a store that was given as a
  /// keyspace.
  let source: Source?

  init(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, place: String, source: Source?
  ) {
    self.place = place
    self.source = source
    adopt(keyspace, contents)
  }

  /// Creates a space whose store could not be opened.
  init(_ obstacle: StoreError, place: String, source: Source?) {
    self.place = place
    self.source = source
    state.withLock { $0.obstacle = obstacle }
  }

  deinit { state.withLock { $0.following }?.cancel() }

  var keyspace: Keyspace? { state.withLock { $0.keyspace } }

  /// Whether the store was open and cannot be written any more: it is closed, or its files were
  /// replaced.
  var isOver: Bool { keyspace?.store.isOver ?? false }

  /// Returns the keyspace, or throws the reason why it is not open.
  func openKeyspace() throws(StoreError) -> Keyspace {
    let (keyspace, obstacle) = state.withLock { ($0.keyspace, $0.obstacle) }
    if let keyspace { return keyspace }
    throw obstacle ?? StoreError(.closed, "the settings are not open", file: place)
  }

  /// Returns the box that all properties for a key share.
  func box<Value: Codable & Sendable>(_ key: PersistedKey<Value>) -> PersistedBox<Value> {
    let name = Key(key.name)
    while true {
      let (known, stored, obstacle) = state.withLock {
        ($0.boxes[name], $0.stored[name], $0.obstacle)
      }
      if let known { return shared(known, key) }
      // Decoding runs the user's code, so it must not run under the lock.
      let box = PersistedBox(key, stored, in: place, obstacle: obstacle)
      let isNew = state.withLock { state in
        guard state.boxes[name] == nil, state.stored[name]?.sequence == stored?.sequence,
          (state.obstacle == nil) == (obstacle == nil)
        else { return false }
        state.boxes[name] = box
        state.stored[name] = nil
        return true
      }
      if isNew { return box }
    }
  }

  /// Returns the existing box, or a separate box with an error when the existing one has another
  /// type or version.
  private func shared<Value>(
    _ known: any SettingBox, _ key: PersistedKey<Value>
  ) -> PersistedBox<Value> {
    if let box = known as? PersistedBox<Value>, box.key.format.version == key.format.version {
      return box
    }
    let obstacle = StoreError(
      .decodingFailed,
      "the setting '\(key.name)' is \(known.kind) elsewhere in this program, but here "
        + "\(Value.self), version \(key.format.version); declare the key once, or name another",
      file: place)
    return PersistedBox(key, nil, in: place, obstacle: obstacle)
  }
}

extension PersistedBox {
  var kind: String { "\(Value.self), version \(key.format.version)" }
}

extension PersistedSpace {
  /// Takes all settings of a keyspace and follows its changes from then on.
  ///
  /// - Parameter always: whether values that could not be saved are discarded.
  func adopt(_ keyspace: Keyspace, _ contents: KeyspaceContents, always: Bool = false) {
    takeAll(contents, always: always) { state in
      state.keyspace = keyspace
      state.obstacle = nil
      follow(contents.feed, of: keyspace, &state)
      return true
    }
  }

  /// Takes all settings that the task with a number has read, unless another task follows now.
  func takeAll(_ contents: KeyspaceContents, by number: UInt64) {
    takeAll(contents, always: false) { $0.followingNumber == number }
  }

  /// - Parameter begin: called under the lock; false when the settings do not count any more.
  private func takeAll(
    _ contents: KeyspaceContents, always: Bool, _ begin: (inout State) -> Bool
  ) {
    var settings: [Key: StoredSetting] = [:]
    for entry in contents.entries {
      settings[entry.key] = StoredSetting(
        bytes: entry.value, sequence: entry.sequence.rawValue, expiry: entry.expiryMilliseconds)
    }
    let boxes = state.withLock { state -> [Key: any SettingBox] in
      guard begin(&state) else { return [:] }
      state.stored = settings.filter { state.boxes[$0.key] == nil }
      return state.boxes
    }
    // A record that had ended when the settings were read has ended by now.
    let absent = StoredSetting(
      bytes: nil, sequence: contents.sequence,
      absenceTime: keyspace?.store.expiryMilliseconds ?? 0)
    for (key, box) in boxes {
      box.take(settings[key] ?? absent, always: always)
    }
  }

  private func take(_ changes: [Store.Change], by number: UInt64) {
    for change in changes {
      let now = change.isRemoval ? keyspace?.store.expiryMilliseconds ?? 0 : 0
      let stored = StoredSetting(
        bytes: change.value, sequence: change.sequence.rawValue, expiry: change.expiryMilliseconds,
        absenceTime: now)
      let box = state.withLock { state -> (any SettingBox)? in
        guard state.followingNumber == number else { return nil }
        let box = state.boxes[change.key]
        // A key without a box that is deleted is as one that never had a record.
        if box == nil { state.stored[change.key] = stored.bytes == nil ? nil : stored }
        return box
      }
      box?.take(stored, always: false)
    }
  }

  /// Follows a keyspace in a task, which replaces the earlier one.
  ///
  /// - Parameters:
  ///   - first: the changes to take; nil to take all settings first.
  ///   - state: the state, whose lock the caller holds: the task may end at once, and finds itself
  ///     in the state then.
  private func follow(_ first: KeyspaceFeed?, of keyspace: Keyspace, _ state: inout State) {
    let before = state.following
    state.followingNumber += 1
    state.hasStopped = false
    state.mayFollowAgain = false
    let number = state.followingNumber
    state.following = Task { [weak self] in
      // The error of the earlier task must not come after what this one reads.
      before?.cancel()
      await before?.value
      var feed = first
      while !Task.isCancelled {
        do throws(StoreError) {
          if let known = feed {
            let changes = try await known.next()
            // The store is closed, or the task is cancelled.
            if changes.isEmpty { return }
            guard let self else { return }
            take(changes, by: number)
          } else {
            let contents = try await keyspace.contents()
            feed = contents.feed
            self?.takeAll(contents, by: number)
          }
        } catch {
          feed = nil
          switch error.code {
          // Compaction has dropped deletes that the feed had not read.
          case .cursorExpired: break
          case .suspended:
            guard await keyspace.store.waitWhileSuspended() else { return }
          default:
            self?.stopFollowing(number, because: error)
            return
          }
        }
      }
    }
  }

  /// Records the error of the task with a number, unless another task follows now.
  func stopFollowing(_ number: UInt64, because error: StoreError) {
    let boxes = state.withLock { state -> [Key: any SettingBox] in
      guard state.followingNumber == number else { return [:] }
      state.hasStopped = true
      state.mayFollowAgain = error.mayPass
      return state.boxes
    }
    for box in boxes.values { box.fail(error) }
  }

  /// Follows the store again if an error has ended that. The store has just done something without
  /// an error.
  private func followAgain(_ keyspace: Keyspace) {
    state.withLock { state in
      if state.mayFollowAgain { follow(nil, of: keyspace, &state) }
    }
  }

  /// Ends the following, and waits until its task changes no setting any more.
  private func endFollowing() async {
    let following = state.withLock { state in
      state.followingNumber += 1
      state.mayFollowAgain = false
      return state.following
    }
    following?.cancel()
    await following?.value
  }

  /// Opens the store that is at the place now and takes all its settings.
  private func reopen(_ source: @escaping Source) async throws(StoreError) {
    let keyspace = Keyspace(try await StoreRegistry.shared.store(at: source))
    let contents = try await keyspace.contents()
    // After this, no number of the old store arrives any more.
    await endFollowing()
    let boxes = state.withLock { state in
      state.keyspace = keyspace
      state.obstacle = nil
      state.stored = state.stored.mapValues {
        StoredSetting(bytes: $0.bytes, sequence: 0, expiry: $0.expiry)
      }
      return state.boxes
    }
    for box in boxes.values { box.forgetStore() }
    adopt(keyspace, contents, always: true)
    PersistedSpaces.shared.add(self, for: keyspace)
  }

  /// Reads the stored setting of a key, and follows the store again if that has stopped. Opens the
  /// store if it is not open any more.
  func reload(_ key: Key, _ box: any SettingBox) async throws(StoreError) {
    // Writes that are under way end first.
    await writingEnded()
    if let source, keyspace == nil || isOver { return try await reopen(source) }
    let keyspace = try openKeyspace()
    if state.withLock({ $0.hasStopped }) {
      let contents = try await keyspace.contents()
      await endFollowing()
      adopt(keyspace, contents)
    }
    guard let found = try await keyspace.observedValue(forKey: key) else {
      throw StoreError(.closed, "the store was closed; open it again", file: place)
    }
    guard state.withLock({ $0.boxes[key] === box }) else { return }
    box.take(
      StoredSetting(
        bytes: found.value, sequence: found.sequence?.rawValue ?? found.storeSequence,
        expiry: found.expiry.milliseconds ?? 0),
      always: true)
  }
}

/// The settings that are not in the log yet, in the order in which they were set.
struct SettingQueue {
  var pending: [PendingSetting] = []
  var isWriting = false
  /// Number of attempts to write the pending settings that were requested.
  var askedCount: UInt64 = 0
  /// Number of the last requested attempt that is over.
  var doneCount: UInt64 = 0
  var waiters: [(count: UInt64, continuation: UnsafeContinuation<Void, Never>)] = []

  mutating func add(_ setting: PendingSetting) {
    // The replaced value would never be visible on disk: all pending settings are one batch.
    pending.removeAll { $0.key == setting.key }
    pending.append(setting)
  }
}

extension PersistedSpace {
  /// Schedules a setting to be written in the background.
  func save(_ setting: PendingSetting) { ask { $0.add(setting) } }

  /// Waits until every setting that was set before is written or has failed.
  func attempt() async throws(StoreError) {
    _ = try openKeyspace()
    let count = ask { _ in }
    await wait { $0.doneCount < count ? count : nil }
  }

  /// Waits until every setting is written to the log.
  func writingEnded() async { await wait { $0.isWriting ? $0.askedCount : nil } }

  /// Waits until everything that was written is durable.
  func sync() async throws(StoreError) {
    let keyspace = try openKeyspace()
    try await keyspace.store.sync()
    // A save may have nothing to write.
    followAgain(keyspace)
  }

  /// Waits for the end of an attempt.
  ///
  /// - Parameter count: returns the number of the attempt to wait for; nil when there is none.
  private func wait(_ count: (SettingQueue) -> UInt64?) async {
    await withUnsafeContinuation { continuation in
      let isOver = state.withLock { state in
        guard let count = count(state.queue) else { return true }
        state.queue.waiters.append((count, continuation))
        return false
      }
      if isOver { continuation.resume() }
    }
  }

  /// Requests an attempt to write the pending settings. One task makes all attempts and ends with
  /// the last one.
  ///
  /// - Returns: the attempt's number.
  @discardableResult
  private func ask(_ body: (inout SettingQueue) -> Void) -> UInt64 {
    PersistedSpaces.shared.watchTheEnd()
    let (count, isFirst, keyspace) = state.withLock { state in
      body(&state.queue)
      state.queue.askedCount += 1
      defer { state.queue.isWriting = true }
      return (state.queue.askedCount, !state.queue.isWriting, state.keyspace)
    }
    // The task keeps the space alive until all settings are written.
    if isFirst {
      Task(executorPreference: keyspace?.store.backgroundExecutor) { await self.write() }
    }
    return count
  }

  private func write() async {
    while true {
      let (keyspace, pending, count) = state.withLock { state in
        defer { state.queue.pending = [] }
        return (state.keyspace, state.queue.pending, state.queue.askedCount)
      }
      if let keyspace { await write(pending, to: keyspace) }
      let (over, isLast) = state.withLock { state in
        state.queue.doneCount = count
        let over = state.queue.waiters.filter { $0.count <= count }
        state.queue.waiters.removeAll { $0.count <= count }
        state.queue.isWriting = state.queue.askedCount > count
        return (over, !state.queue.isWriting)
      }
      for waiter in over { waiter.continuation.resume() }
      if isLast { return }
    }
  }

  /// Writes settings as one batch, so that the disk never has a state that the program did not.
  private func write(_ pending: [PendingSetting], to keyspace: Keyspace) async {
    var encoded: [(setting: PendingSetting, bytes: [UInt8]?)] = []
    var begun: [PendingSetting] = []
    for setting in pending where setting.box.beginSaving(setting.count) {
      do throws(StoreError) {
        encoded.append((setting, try setting.encoded()))
        begun.append(setting)
      } catch {
        if setting.box.couldNotSave(setting.count, error) { keep(setting) }
      }
    }
    if begun.isEmpty { return }
    // The records end at this time or later: the clock is read again when they are written.
    let now = keyspace.store.expiryMilliseconds
    let expiry = keyspace.defaultExpiry.counted(from: now).milliseconds ?? 0
    do throws(StoreError) {
      let sequences = try await commit(encoded, to: keyspace)
      for ((setting, bytes), sequence) in zip(encoded, sequences) {
        setting.box.saved(
          setting.count, at: sequence, isRecord: bytes != nil, expiry: expiry)
      }
      // A value that is saved has no error any more, so it must have the later changes.
      followAgain(keyspace)
    } catch {
      // A setting that is too large must not prevent the others from being saved.
      guard begun.count > 1, error.code == .valueTooLarge || error.code == .keyTooLarge else {
        for setting in begun where setting.box.couldNotSave(setting.count, error) {
          keep(setting)
        }
        return
      }
      for setting in begun { await write([setting], to: keyspace) }
    }
  }

  /// Commits settings as one batch. A setting that the store has already is not written.
  ///
  /// - Returns: for each setting the number of the record that it has in the store, or of a moment
  ///   at which it had none; nil where nothing was written. Each setting has its own number, which
  ///   its record is compared with later.
  private func commit(
    _ settings: [(setting: PendingSetting, bytes: [UInt8]?)], to keyspace: Keyspace
  ) async throws(StoreError) -> [UInt64?] {
    let receipt = Mutex<CommitReceipt?>(nil)
    let outcome = try await keyspace.commit(
      durability: nil, onVisible: { done in receipt.withLock { $0 = done } }
    ) { (batch) throws(StoreError) -> Result<(places: [PlaceOfSetting], count: Int), Never> in
      var places: [PlaceOfSetting] = []
      for (setting, bytes) in settings {
        if let stored = bytes.flatMap({ Self.stored($0, setting, in: keyspace, &batch) }) {
          places.append(.record(stored.sequence.rawValue))
          continue
        }
        let count = batch.count
        let operation = KeyspaceOperation(key: setting.key, value: bytes)
        try batch.add([operation], in: keyspace, expiring: keyspace.defaultExpiry)
        // The setting's own operation comes after those of the keyspace's indexes.
        places.append(batch.count > count ? .operation(batch.count) : .absent)
      }
      return .success((places, batch.count))
    }
    let last = receipt.withLock { $0?.sequence?.rawValue }
    let (places, count) = outcome.get()
    return places.map { (place) -> UInt64? in
      switch place {
      case .record(let sequence): sequence
      case .operation(let position): last.map { $0 - UInt64(count - position) }
      case .absent: last
      }
    }
  }

  /// Where the store has a setting after a batch.
  private enum PlaceOfSetting: Sendable {
    /// The store had the value before, in the record with this number.
    case record(UInt64)
    /// The operation with this position in the batch, from 1, has written it.
    case operation(Int)
    /// The setting was removed, and had no record.
    case absent
  }

  /// Returns what the store has for a setting, if a put of its bytes would change nothing.
  private static func stored(
    _ bytes: [UInt8], _ setting: PendingSetting, in keyspace: Keyspace, _ batch: inout WriteBatch
  ) -> VersionedValue? {
    // A put lets the entry live longer.
    guard keyspace.defaultExpiry == .never else { return nil }
    do throws(StoreError) {
      let stored = try batch.storedVersion(forKey: setting.key, in: keyspace)
      guard let stored, stored.expiry == .never, setting.isStored(stored.value, bytes)
      else { return nil }
      return stored
    } catch {
      // A damaged entry is replaced.
      return nil
    }
  }

  /// The names of the settings that were set and are not saved.
  var unsavedNames: [String] {
    let boxes = state.withLock { $0.boxes }
    return boxes.filter(\.value.isUnsaved).map(\.key.description).sorted()
  }

  /// Keeps a setting for the next attempt, unless a newer one for its key is pending.
  private func keep(_ setting: PendingSetting) {
    state.withLock { state in
      guard !state.queue.pending.contains(where: { $0.key == setting.key }) else { return }
      state.queue.pending.insert(setting, at: 0)
    }
  }
}

extension StoreError {
  /// Whether a store that has thrown this error may work again without being opened again.
  var mayPass: Bool {
    switch code {
    case .closed, .storeReplaced, .poisoned, .usedAfterFork: false
    default: true
    }
  }
}
