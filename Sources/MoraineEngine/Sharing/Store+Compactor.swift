import MoraineFormat
import MoraineStorage

/// One process at a time rewrites segments; and the last one ends the log.
extension Store {
  /// - Returns: false while another process rewrites segments. In a store of one's own always true.
  func takeCompactor() throws(StoreError) -> Bool {
    guard isShared, let link = engine?.link else { return true }
    try engine!.checkProcess()
    sharing.hasCompactor = try link.tryCompactor()
    return sharing.hasCompactor
  }

  /// Takes in what others have rewritten. From here on nobody does.
  func beginRewriting() async throws(StoreError) {
    try await passBurst()
    sharing.keepsSlots = sharing.hasCompactor
  }

  func freeCompactor() {
    guard sharing.hasCompactor else { return }
    sharing.hasCompactor = false
    sharing.keepsSlots = false
    engine?.link?.freeCompactor()
  }

  /// Lets a little time pass.
  func pause() async throws(StoreError) {
    do { try await Task.sleep(for: .milliseconds(5)) } catch {
      throw StoreError(.closed, "the task was cancelled while another process was compacting")
    }
    try checkUsable()
  }

  /// Ends the log when nobody else is there who writes; otherwise only sees to it that what this
  /// process wrote is durable.
  func leaveForGood() async throws(StoreError) {
    guard let link = engine?.link else { return }
    do throws(StoreError) { guard try await enterBurst() else { return } } catch {
      // Somebody keeps the lock: what this process wrote becomes durable without it.
      try await pipeline.waitUntilAllDurable()
      throw error
    }
    var isLast = false
    var failure: StoreError?
    do throws(StoreError) {
      isLast = try link.becomeOnly()
      if isLast { try await sealForGood() }
    } catch {
      failure = error
    }
    // Also the last one: who comes while it leaves joins it.
    do throws(StoreError) { try link.joinOthers() } catch { failure = failure ?? error }
    leaveBurst()
    if let failure { throw failure }
    if !isLast { try await pipeline.waitUntilAllDurable() }
  }
}
