import MoraineEngine
import MoraineFormat
import MoraineStorage
import SystemPackage

// A follower begins again from a whole copy: the commits after its state were removed, or belong to
// another history.
extension Follower {
  /// Replaces the store by the newest state of the archive. The present store is read from until
  /// the other one is complete, and has been opened once.
  ///
  /// - Throws: `.unavailable`, `.stateUnavailable`, `.store` with `.suspended`: the present store
  ///   goes on.
  func rebase() async throws(ArchiveError) {
    // The system may end a program whose suspended store has locks again.
    do throws(StoreError) { try await store.checkIsNotSuspended() } catch {
      throw ArchiveError(error)
    }
    let staging = path.sibling(suffix: ".rebase")
    do throws(StoreError) { try await FollowerFiles.remove(at: staging, on: storage) } catch {
      throw ArchiveError(error)
    }
    let highest = try await ArchiveRestore(
      objects: objects, storage: storage, path: staging, follows: true, nil
    ).follow()
    highestEpoch = max(highestEpoch, highest)
    // Closing writes a checkpoint of the index, with which the next opening takes no time.
    let prepared = try await Self.opened(staging, storage, storeConfiguration)
    do throws(StoreError) {
      try await prepared.close()
    } catch {
      throw ArchiveError(error)
    }
    hasClosedStore = true
    do throws(StoreError) {
      try await store.closeUnlessSuspended()
      try await FollowerFiles.replace(at: path, by: staging, on: storage)
    } catch {
      if error.code == .suspended {
        hasClosedStore = false
        throw ArchiveError(error)
      }
      throw ArchiveError(
        .store,
        "the follower could not be replaced by a newer copy (\(error.message)); "
          + "remove \(path) and follow again", storeError: error)
    }
    try await adopt(try await Self.opened(path, storage, storeConfiguration))
  }

  private func adopt(_ store: Store) async throws(ArchiveError) {
    guard let place = await store.following, let cut = try await Self.cut(of: store) else {
      throw ArchiveError(.diverged, "the copy follows no archive")
    }
    replaceStore(by: store)
    hasClosedStore = false
    reader = HistoryReader(applied: CommitReference(place), checkpoint: place.checkpoint)
    (next, needsCopy) = (PendingState(), false)
    highestEpoch = max(highestEpoch, cut.head.epoch)
    configuration.onEvent?(.rebased(position: place.position))
    became(cut.sequence, place, milliseconds: 0)
  }
}

extension FilePath {
  /// The path of a file beside this one, whose name has a suffix.
  func sibling(suffix: String) -> FilePath { FilePath(string + suffix) }
}
