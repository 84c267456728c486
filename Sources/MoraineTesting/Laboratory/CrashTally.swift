/// The numbers of crash points, disks and faults that were tried.
public struct CrashTally: Hashable, Sendable, Codable {
  /// Number of moments at which a crash was tried: before calls of the disk and between steps.
  public var crashPoints = 0
  /// Number of disks that a crash could leave, equal disks included.
  public var images = 0
  /// Number of different disks among ``images``. Two disks are equal when they contain the same
  /// files and may hold the same steps. Each different disk was opened.
  public var distinctImages = 0
  /// Number of disks that a second or third crash could leave: during recovery, or when
  /// the machine dies after the process. Each was opened.
  public var nestedImages = 0
  /// Number of workload runs with one or two faults.
  public var faultRuns = 0
  /// Number of fault runs whose faults did not all occur in fifty attempts, because the call of a
  /// fault was not made again.
  public var missedCalls = 0
  /// Commands that repeat some of the ``missedCalls``, at most ten.
  public internal(set) var missed: [String] = []
  /// Number of steps of the workloads that were crashed.
  public var steps = 0

  private static let missedLimit = 10

  /// Creates a tally of zeros.
  public init() {}

  /// Number of disks that were opened and judged; equal disks count once.
  public var judgedImages: Int { distinctImages + nestedImages }

  /// Adds the numbers of another tally.
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
