import MoraineTesting
import Testing

@Suite struct LedgerTests {
  private func ledger(acknowledged: [Int], inFlight: [Int]) -> AcknowledgementLedger<Numbers> {
    var ledger = AcknowledgementLedger(Numbers())
    for number in acknowledged + inFlight { ledger.send(number) }
    for _ in acknowledged { ledger.acknowledge() }
    return ledger
  }

  @Test func answersAcknowledgeInTheOrderOfSending() {
    let ledger = ledger(acknowledged: [1, 2], inFlight: [3])
    #expect(ledger.model.all == [1, 2] && ledger.inFlight == [3])
    #expect(ledger.acknowledgedCount == 2)
  }

  @Test func anAnswerToNothingAcknowledgesNothing() {
    var ledger = AcknowledgementLedger(Numbers())
    let isAcknowledged = ledger.acknowledge()
    #expect(!isAcknowledged)
    #expect(ledger.model.all.isEmpty && ledger.acknowledgedCount == 0)
  }

  @Test func aRefusedOperationIsForgotten() {
    var ledger = ledger(acknowledged: [], inFlight: [1, 2])
    ledger.refuse()
    ledger.acknowledge()
    #expect(ledger.model.all == [2])
  }

  @Test(arguments: [([1], 0), ([1, 2], 1), ([1, 2, 3], 2)])
  func anyPrefixOfTheOperationsInFlightMaySurvive(seen: [Int], count: Int) {
    var ledger = ledger(acknowledged: [1], inFlight: [2, 3])
    #expect(ledger.survivors { $0.all == seen } == count)
    ledger.settle(.survivors(count))
    #expect(ledger.model.all == seen && ledger.inFlight.isEmpty)
    #expect(ledger.survivedCount == count && ledger.vanishedCount == 2 - count)
  }

  /// Lost, out of order, duplicated, and never written.
  @Test(arguments: [[], [2], [1, 3], [1, 1], [1, 2, 3, 4]])
  func onlyAPrefixOfTheOperationsInFlightMaySurvive(seen: [Int]) {
    #expect(ledger(acknowledged: [1], inFlight: [2, 3]).survivors { $0.all == seen } == nil)
  }

  @Test func aStateThatTheScriptFoundIsTakenOver() {
    var ledger = ledger(acknowledged: [1], inFlight: [2, 3])
    ledger.settle(.state(Numbers(all: [1, 3])))
    #expect(ledger.model.all == [1, 3] && ledger.inFlight.isEmpty)
  }
}
