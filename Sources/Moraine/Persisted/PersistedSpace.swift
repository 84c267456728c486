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
    /// The error with which the following has ended; nil while the keyspace is followed.
    var stopError: StoreError?
    /// Whether the following has ended with an error that may be over.
    var mayFollowAgain = false
    /// Whether a task reloads.
    var isReloading = false
    /// The tasks that wait for the end of that, the earliest first.
    var reloaders: [UnsafeContinuation<Void, Never>] = []
    var queue = SettingQueue()
  }

  let state = Mutex(State())
  /// Name of the place, for messages.
  let place: String
  /// Path and configuration for opening the store again; nil for a store that was given as a
  /// keyspace.
  let source: Source?
  /// Whether the space is released with its last user, also when it has unsaved settings: its
  /// store is in memory, and would not outlive the process anyway.
  let isTransient: Bool

  init(
    _ keyspace: Keyspace, _ contents: KeyspaceContents, place: String, source: Source?,
    isTransient: Bool = false
  ) {
    self.place = place
    self.source = source
    self.isTransient = isTransient
    adopt(keyspace, contents)
  }

  /// Creates a space whose store could not be opened.
  init(_ obstacle: StoreError, place: String, source: Source?) {
    self.place = place
    self.source = source
    isTransient = false
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
    PersistedSpaces.shared.keepWhileUnsaved(self)
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
    PersistedSpaces.shared.keepWhileUnsaved(self)
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
    state.stopError = nil
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
            guard let self else { return }
            // The store is closed, or the task is cancelled.
            if changes.isEmpty { return PersistedSpaces.shared.keepWhileUnsaved(self) }
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
      state.stopError = error
      state.mayFollowAgain = error.mayPass
      return state.boxes
    }
    for box in boxes.values { box.fail(error) }
    PersistedSpaces.shared.keepWhileUnsaved(self)
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

  /// Waits until no other task reloads. A second one would take settings that it read before the
  /// first one's were used, also those of a store that was closed in between.
  private func beginTurn() async {
    await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
      let hasTurn = state.withLock { state in
        if state.isReloading {
          state.reloaders.append(continuation)
          return false
        }
        state.isReloading = true
        return true
      }
      if hasTurn { continuation.resume() }
    }
  }

  /// Hands the turn of ``beginTurn()`` to the task that has waited longest.
  private func endTurn() {
    let next = state.withLock { state -> UnsafeContinuation<Void, Never>? in
      guard state.reloaders.isEmpty else { return state.reloaders.removeFirst() }
      state.isReloading = false
      return nil
    }
    next?.resume()
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
    // A value that could not be saved may be discarded here.
    defer { PersistedSpaces.shared.keepWhileUnsaved(self) }
    // Writes that are under way end first.
    await writingEnded()
    await beginTurn()
    defer { endTurn() }
    if let source, keyspace == nil || isOver { return try await reopen(source) }
    let keyspace = try openKeyspace()
    if state.withLock({ $0.stopError != nil }) {
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
      // Before the waiters go on: they may be the last users of the space.
      PersistedSpaces.shared.keepWhileUnsaved(self)
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
    var encoded: [EncodedSetting] = []
    var failed: Set<Key> = []
    for setting in pending where setting.box.beginSaving(setting.count) {
      do throws(StoreError) {
        encoded.append(EncodedSetting(setting: setting, bytes: try setting.encoded()))
      } catch {
        if setting.box.couldNotSave(setting.count, error) { failed.insert(setting.key) }
      }
    }
    if !encoded.isEmpty {
      let kept = await save(encoded, to: keyspace)
      failed.formUnion(kept)
    }
    keep(pending.filter { failed.contains($0.key) })
  }

  /// Writes settings, and ends the attempt of each one.
  ///
  /// - Returns: the keys of the settings that must be kept for another attempt.
  private func save(_ settings: [EncodedSetting], to keyspace: Keyspace) async -> [Key] {
    // The records end at this time or later: the clock is read again when they are written.
    let now = keyspace.store.expiryMilliseconds
    let expiry = keyspace.defaultExpiry.counted(from: now).milliseconds ?? 0
    let outcomes = await outcomes(of: settings, in: keyspace)
    var kept: [Key] = []
    var isAnySaved = false
    for (encoded, outcome) in zip(settings, outcomes) {
      let setting = encoded.setting
      switch outcome {
      case .success(let sequence):
        isAnySaved = true
        setting.box.saved(
          setting.count, at: sequence, isRecord: encoded.bytes != nil, expiry: expiry)
      case .failure(let error):
        if setting.box.couldNotSave(setting.count, error) { kept.append(setting.key) }
      }
    }
    // A value that is saved has no error any more, so it must have the later changes.
    if isAnySaved {
      followAgain(keyspace)
    }
    return kept
  }

  /// Commits settings as one batch, or one by one in their order where one batch would be too
  /// large.
  private func outcomes(
    of settings: [EncodedSetting], in keyspace: Keyspace
  ) async -> [Result<UInt64?, StoreError>] {
    do throws(StoreError) {
      return try await commit(settings, to: keyspace)
    } catch {
      guard settings.count > 1, error.isTooLarge else {
        return settings.map { _ in .failure(error) }
      }
    }
    var outcomes: [Result<UInt64?, StoreError>] = []
    for setting in settings {
      // The disk must not have a setting without those that were set before it. Only one that is
      // too large is left out.
      if case .failure(let error)? = outcomes.last, !error.isTooLarge {
        outcomes.append(.failure(error))
        continue
      }
      do throws(StoreError) {
        let outcome = try await commit([setting], to: keyspace)
        outcomes += outcome
      } catch {
        outcomes.append(.failure(error))
      }
    }
    return outcomes
  }

  /// Commits settings as one batch. A setting that the store has already is not written.
  ///
  /// - Returns: for each setting the number of the record that it has in the store, or of a moment
  ///   at which it had none; nil where nothing was written. Each setting has its own number, which
  ///   its record is compared with later. A setting that is too large has an error, and does not
  ///   prevent the others from being saved.
  /// - Throws: the error of the batch, of which nothing is written then.
  private func commit(
    _ settings: [EncodedSetting], to keyspace: Keyspace
  ) async throws(StoreError) -> [Result<UInt64?, StoreError>] {
    let receipt = Mutex<CommitReceipt?>(nil)
    let outcome = try await keyspace.commit(
      durability: nil, onVisible: { done in receipt.withLock { $0 = done } }
    ) { (batch) throws(StoreError) -> Result<(places: [PlaceOfSetting], count: Int), Never> in
      var places: [PlaceOfSetting] = []
      for encoded in settings {
        let (setting, bytes) = (encoded.setting, encoded.bytes)
        if let stored = bytes.flatMap({ Self.stored($0, setting, in: keyspace, &batch) }) {
          places.append(.record(stored.sequence.rawValue))
          continue
        }
        let count = batch.count
        let operation = KeyspaceOperation(key: setting.key, value: bytes)
        do throws(StoreError) {
          try batch.add([operation], in: keyspace, expiring: keyspace.defaultExpiry)
        } catch {
          guard error.isTooLarge else { throw error }
          places.append(.refused(error))
          continue
        }
        // The setting's own operation comes after those of the keyspace's indexes.
        places.append(batch.count > count ? .operation(batch.count) : .absent)
      }
      return .success((places, batch.count))
    }
    let last = receipt.withLock { $0?.sequence?.rawValue }
    // Only a write would find out that a store of one process has stopped writing for good.
    if last == nil, let poison = keyspace.store.poison { throw poison }
    let (places, count) = outcome.get()
    return places.map { (place) -> Result<UInt64?, StoreError> in
      switch place {
      case .record(let sequence): .success(sequence)
      case .operation(let position): .success(last.map { $0 - UInt64(count - position) })
      case .absent: .success(last)
      case .refused(let error): .failure(error)
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
    /// The setting is too large for the store.
    case refused(StoreError)
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

  /// Whether the store is open, or can be opened again. Otherwise nothing of the space is ever
  /// saved.
  var mayBeOpen: Bool { source != nil || !isOver }

  /// Whether a setting was set and is not saved.
  var hasUnsaved: Bool {
    let boxes = state.withLock { $0.boxes }
    return boxes.values.contains { $0.isUnsaved }
  }

  /// Keeps settings for the next attempt, in their order and before those that were set later. A
  /// newer one for the same key replaces one of them.
  private func keep(_ settings: [PendingSetting]) {
    state.withLock { state in
      let later = Set(state.queue.pending.map(\.key))
      let kept = settings.filter { !later.contains($0.key) }
      state.queue.pending.insert(contentsOf: kept, at: 0)
    }
  }
}

/// A setting with the bytes to be written; nil removes the key.
private struct EncodedSetting: Sendable {
  let setting: PendingSetting
  let bytes: [UInt8]?
}

extension StoreError {
  /// Whether a store that has thrown this error may work again without being opened again.
  var mayPass: Bool {
    switch code {
    case .closed, .storeReplaced, .poisoned, .usedAfterFork: false
    default: true
    }
  }

  /// Whether something is longer than the format allows.
  fileprivate var isTooLarge: Bool { code == .valueTooLarge || code == .keyTooLarge }
}
