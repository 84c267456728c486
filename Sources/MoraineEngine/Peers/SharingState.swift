import MoraineStorage

/// The state of a shared store that concerns the other processes.
struct SharingState {
  /// Number of writers and compactions of this store that have the writer's lock together; 0 when
  /// other processes may take it.
  var leaseDepth = 0
  /// Held by the task that waits for the writer's lock and takes over.
  let entryGate = AsyncGate()
  /// The version of the page that this process has followed.
  var seenVersion: UInt64 = 0
  var nonce: UInt64 = 0
  /// Wakes this process when others have written.
  var watch: PeerWatcher?
  /// Whether a look for a store that does not exist yet is scheduled.
  var looksLater = false
  /// Whether a store existed at the time of the suspension.
  var wasThere = false
  /// Held by the call that suspends or resumes the store. Such calls come one after the other, in
  /// their order: an app may go into the background while it still opens its stores.
  let turnGate = AsyncGate()
  /// The version of the page when this process last had the lock. While the page has this version,
  /// the process knows the segment to append to.
  var adoptedVersion: UInt64 = 0
  /// Whether this process has the compactor's lock: it alone may rewrite segments.
  var hasCompactor = false
  /// Whether segments are being rewritten. They keep their slots until that ends.
  var keepsSlots = false
  /// Whether a writer of this process has the lock and is applying the writes of other processes.
  /// Readers wait at ``entryGate`` until that ends.
  var isTakingOver = false
  /// Whether a reader reads the store again on a thread of the pool; other readers wait for it.
  var isRereading: Bool { rereadQueue != nil }
  /// The queue on whose thread a reader reads the store again.
  var rereadQueue: SerialQueue?
  /// Readers that wait until the store was read again.
  let rereadEnd = AsyncGate()
  /// The error of the last time that the store was read again, where another process kept a lock
  /// for too long.
  var rereadFailure: StoreError?
  /// Number of states that this store has had. It shows whether a state that another thread has
  /// read may still replace the current one.
  var stateCount: UInt64 = 0
}
