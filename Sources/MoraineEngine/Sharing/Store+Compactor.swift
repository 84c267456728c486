import MoraineFormat
import MoraineStorage

/// One process at a time rewrites segments; and the last one ends the log.
extension Store {
  /// - Returns: false while another process rewrites segments. In a store of one's own always true.
  func takeCompactor() throws(StoreError) -> Bool {
    guard isShared, let link = engine?.link else { return true }
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
    if isClosed { throw StoreError(.closed, "the store was closed") }
  }

  /// Ends the log when nobody else is there who writes; otherwise only sees to it that what this
  /// process wrote is durable.
  func leaveForGood() async throws(StoreError) {
    guard let link = engine?.link else { return }
    guard try await enterBurst() else { return }
    let isLast: Bool
    do throws(StoreError) {
      isLast = try link.becomeOnly()
      if isLast { try await sealForGood() } else { try link.joinOthers() }
    } catch {
      leaveBurst()
      throw error
    }
    leaveBurst()
    if !isLast { try await pipeline.waitUntilAllDurable() }
  }
}
