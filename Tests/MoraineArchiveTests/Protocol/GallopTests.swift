import MoraineArchive
import Testing

/// The search for the last object of a row.
@Suite struct GallopTests {
  /// Searches a row of objects 1...count. Returns the number of requests.
  private func search(_ gallop: inout Gallop, count: UInt64) -> Int {
    var requests = 0
    while let probe = gallop.probe {
      requests += 1
      if probe <= count { gallop.recordExisting() } else { gallop.recordAbsent() }
    }
    return requests
  }

  @Test func theLastObjectIsFoundForEachCountStartAndHint() {
    for count: UInt64 in 0...40 {
      for start in 0...count {
        for hint: UInt64 in 0...50 {
          var gallop = Gallop(above: start, hint: hint)
          _ = search(&gallop, count: count)
          #expect(gallop.found == count, "count \(count), start \(start), hint \(hint)")
        }
      }
    }
  }

  @Test(arguments: [1, 2, 1000, 1_000_000, 1_000_000_000_000_000] as [UInt64])
  func requestsAreLogarithmicInTheDistance(count: UInt64) {
    var gallop = Gallop(above: 0)
    let bits = 64 - count.leadingZeroBitCount
    #expect(search(&gallop, count: count) <= 2 * bits + 1)
  }

  @Test func exactHintsNeedTwoRequests() {
    var gallop = Gallop(above: 0, hint: 1_000_000)
    #expect(search(&gallop, count: 1_000_000) == 2)
  }

  @Test func hintsThatAreTooHighCostLogarithmicRequests() {
    var gallop = Gallop(above: 0, hint: .max)
    #expect(search(&gallop, count: 5) <= 65)
    #expect(gallop.found == 5)
  }

  @Test func rowsThatGrowDuringTheSearchAreFollowed() {
    var gallop = Gallop(above: 0)
    _ = search(&gallop, count: 6)
    #expect(gallop.probe == nil)
    #expect(gallop.probeOrEnd == 7)
    gallop.recordExisting()
    #expect(gallop.probe == 8)
    _ = search(&gallop, count: 20)
    #expect(gallop.found == 20)
  }

  @Test func rowsWithoutAnEndStopAtTheLastNumber() {
    var gallop = Gallop(above: 0)
    let requests = search(&gallop, count: .max)
    #expect(requests <= 65)
    #expect(gallop.found == .max)
  }
}
