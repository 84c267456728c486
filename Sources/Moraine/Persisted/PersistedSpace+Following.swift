import MoraineEngine
import Synchronization

extension PersistedSpace {
  /// Takes all settings of a keyspace and follows its changes from then on.
  func adopt(_ keyspace: Keyspace, _ contents: KeyspaceContents) {
    state.withLock { state in
      state.keyspace = keyspace
      state.obstacle = nil
    }
    takeAll(contents, always: false)
    follow(contents.feed, of: keyspace)
  }

  private func takeAll(_ contents: KeyspaceContents, always: Bool) {
    var settings: [Key: StoredSetting] = [:]
    for entry in contents.entries {
      settings[entry.key] = StoredSetting(
        bytes: entry.value, sequence: entry.sequence.rawValue)
    }
    let boxes = state.withLock { state in
      state.stored = settings.filter { state.boxes[$0.key] == nil }
      return state.boxes
    }
    for (key, box) in boxes {
      let stored = settings[key] ?? StoredSetting(bytes: nil, sequence: contents.sequence)
      box.take(stored, always: always)
    }
  }

  private func take(_ changes: [Store.Change]) {
    for change in changes {
      let stored = StoredSetting(bytes: change.value, sequence: change.sequence.rawValue)
      let box = state.withLock { state in
        let box = state.boxes[change.key]
        if box == nil { state.stored[change.key] = stored }
        return box
      }
      box?.take(stored, always: false)
    }
  }

  private func follow(_ first: KeyspaceFeed, of keyspace: Keyspace) {
    let following = Task { [weak self] in
      var feed = first
      while !Task.isCancelled {
        do throws(StoreError) {
          let changes = try await feed.next()
          // The store is closed, or the task is cancelled.
          if changes.isEmpty { return }
          guard let self else { return }
          take(changes)
        } catch {
          do throws(StoreError) {
            guard error.code == .cursorExpired else { throw error }
            let contents = try await keyspace.contents()
            feed = contents.feed
            self?.takeAll(contents, always: false)
          } catch {
            self?.stopFollowing(because: error)
            return
          }
        }
      }
    }
    let before = state.withLock { state in
      defer { state.following = following }
      return state.following
    }
    before?.cancel()
  }

  private func stopFollowing(because error: StoreError) {
    let boxes = state.withLock { state in
      state.following = nil
      return state.boxes
    }
    for box in boxes.values { box.fail(error) }
  }

  /// Opens the store that is at the place now and takes all its settings.
  private func reopen(_ source: @escaping Source) async throws(StoreError) {
    let keyspace = Keyspace(try await StoreRegistry.shared.store(at: source))
    let contents = try await keyspace.contents()
    let boxes = state.withLock { state in
      state.keyspace = keyspace
      state.obstacle = nil
      return state.boxes
    }
    for box in boxes.values { box.forgetStore() }
    takeAll(contents, always: true)
    follow(contents.feed, of: keyspace)
    PersistedSpaces.shared.add(self, for: keyspace)
  }

  /// Reads the stored setting of a key, and follows the store again if that has stopped. Opens the
  /// store if it is not open any more.
  func reload(_ key: Key, _ box: any SettingBox) async throws(StoreError) {
    // Writes that are under way end first.
    await writingEnded()
    if let source, keyspace == nil || isOver { return try await reopen(source) }
    let keyspace = try openKeyspace()
    if state.withLock({ $0.following == nil }) {
      adopt(keyspace, try await keyspace.contents())
    }
    guard let found = try await keyspace.versionedValue(forKey: key) else {
      throw StoreError(.closed, "the store was closed; open it again", file: place)
    }
    guard state.withLock({ $0.boxes[key] === box }) else { return }
    box.take(
      StoredSetting(bytes: found.value, sequence: found.sequence?.rawValue ?? 0), always: true)
  }
}
