/// How much was tried.
public struct CrashTally: Hashable, Sendable, Codable {
  /// Calls before which a crash was tried, and moments between steps.
  public var crashPoints = 0
  /// Disks that a crash could leave.
  public var images = 0
  /// Number of the disks that differ from all others, in their bytes or in what was promised; each
  /// was opened.
  public var distinctImages = 0
  /// Disks that a second or third crash, during recovery, could leave; each was opened.
  public var nestedImages = 0
  /// Runs with a fault at one call.
  public var faultRuns = 0
  /// Calls at which the fault was to strike, and which did not come again in fifty attempts.
  public var missedCalls = 0
  /// Commands that try some of the missed calls again.
  public internal(set) var missed: [String] = []
  /// Steps of workloads.
  public var steps = 0

  private static let missedLimit = 10

  /// Nothing yet.
  public init() {}

  /// Disks that were opened and judged in all; of those that are equal, one.
  public var judgedImages: Int { distinctImages + nestedImages }

  /// Adds what was tried elsewhere.
  public static func += (left: inout Self, right: Self) {
    left.crashPoints += right.crashPoints
    left.images += right.images
    left.distinctImages += right.distinctImages
    left.nestedImages += right.nestedImages
    left.faultRuns += right.faultRuns
    left.missedCalls += right.missedCalls
    left.missed += right.missed.prefix(max(0, missedLimit - left.missed.count))
    left.steps += right.steps
  }
}
