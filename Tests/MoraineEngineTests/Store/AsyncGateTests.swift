import Testing

@testable import MoraineEngine

/// Tasks of one actor that wait for each other.
@Suite struct AsyncGateTests {
  private actor Room {
    let gate = AsyncGate()
    private(set) var order: [Int] = []
    private var inside = 0

    func waitingCount() -> Int { gate.waitingCount }
    func isHeld() -> Bool { gate.isHeld }
    func take() { gate.take() }
    func release() { gate.release() }
    func wakeAll() { gate.wakeAll() }
    func passOn() { gate.passOn() }

    func enter(_ number: Int) async {
      await gate.acquire()
      inside += 1
      #expect(inside == 1, "two tasks hold the gate")
      await Task.yield()
      inside -= 1
      order.append(number)
      gate.release()
    }

    func enterInTurn(_ number: Int) async {
      await gate.acquireInTurn()
      inside += 1
      #expect(inside == 1, "two tasks hold the gate")
      await Task.yield()
      inside -= 1
      order.append(number)
      gate.passOn()
    }

    func waitForWakeUp() async { await gate.waitForWakeUp() }
    func waitUntilFree() async {
      await gate.waitUntilFree()
      #expect(!gate.isHeld, "another task came between the wait and the next statement")
    }
  }

  private let room = Room()

  private func untilTasksWait(_ count: Int) async {
    while await room.waitingCount() < count { await Task.yield() }
  }

  @Test func oneTaskAtATimeHoldsTheGate() async {
    let room = room
    await withTaskGroup { group in
      for number in 0..<200 { group.addTask { await room.enter(number) } }
    }
    #expect(await room.order.sorted() == Array(0..<200))
    #expect(await !room.isHeld())
  }

  @Test func tasksThatWaitForTheirTurnComeInTheOrderOfTheirCalls() async {
    let room = room
    await room.take()
    await withTaskGroup { group in
      for number in 0..<20 {
        group.addTask { await room.enterInTurn(number) }
        await untilTasksWait(number + 1)
      }
      await room.passOn()
    }
    #expect(await room.order == Array(0..<20))
    #expect(await !room.isHeld())
  }

  @Test func releasedGateIsFreeForATaskThatWaited() async {
    let room = room
    await room.take()
    await withTaskGroup { group in
      for _ in 0..<50 { group.addTask { await room.waitUntilFree() } }
      for number in 0..<50 { group.addTask { await room.enter(number) } }
      await untilTasksWait(100)
      await room.release()
    }
    #expect(await room.order.count == 50)
  }

  @Test func wakeUpComesWithoutARelease() async {
    let room = room
    await room.take()
    async let first: Void = room.waitForWakeUp()
    await untilTasksWait(1)
    await room.wakeAll()
    await first
    #expect(await room.isHeld())
    await room.release()
  }
}
