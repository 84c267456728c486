import MoraineStorage

/// What a shared store's actor knows of the others.
struct SharingState {
  /// How many of this store's writers and compactions have the writer's lock together; 0 when it is
  /// free for others.
  var leaseDepth = 0
  /// Held by the task that waits for the writer's lock and takes over.
  let entryGate = AsyncGate()
  /// Of the page, when it was looked at last.
  var seenVersion: UInt64 = 0
  var nonce: UInt64 = 0
  /// Wakes this process when others have written.
  var watch: PeerWatcher?
  /// Whether a look at a store that is not there yet is due.
  var looksLater = false
  /// Whether there was a store when it was suspended.
  var wasThere = false
  /// Held by the call that suspends or resumes the store. Such calls come one after the other, in
  /// their order: an app may go into the background while it still opens its stores.
  let turnGate = AsyncGate()
  /// Of the page, when this process last had the lock: what is appended to is known as long as it
  /// stays so.
  var adoptedVersion: UInt64 = 0
  /// Whether this process alone may rewrite segments.
  var hasCompactor = false
  /// Whether segments are being rewritten: they keep their slots.
  var keepsSlots = false
  /// Whether a writer of this process has the lock and is taking in what others have written:
  /// readers wait at ``entryGate`` for the end of that.
  var isTakingOver = false
  /// Whether a reader reads the store again on a thread of the pool; the others wait for it.
  var isRereading: Bool { rereadQueue != nil }
  /// The thread's queue on which that is done.
  var rereadQueue: SerialQueue?
  /// Readers that wait for the end of that.
  let rereadEnd = AsyncGate()
  /// Why the last reading has failed, where another process kept a lock for too long.
  var rereadFailure: StoreError?
  /// How many states this store has had: whether one that was read on another thread still has the
  /// place of the one that it was read for.
  var stateCount: UInt64 = 0
}
