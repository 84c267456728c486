import MoraineEngine
import Testing

extension FaultyLives {
  func work(on store: Store, _ life: Int) async {
    for number in 0..<14 {
      let byte = UInt8(life * 20 + number)
      let key = Key("key \(number % 5)")
      let value = [UInt8](repeating: byte, count: 10 + number) + (0..<70)
      let durability: Durability? = number % 4 == 1 ? .sync : nil
      switch number % 7 {
      case 3:
        await step([(key, value), ("batch", [byte]), ("key 1", nil)], on: store) { step in
          try await store.write(durability: durability) { batch in
            for (key, value) in step {
              if let value {
                try batch.set(value, forKey: key)
              } else {
                try batch.removeValue(forKey: key)
              }
            }
          }
        }
      case 5:
        await step([(key, nil)], on: store) { _ in
          try await store.removeValue(forKey: key, durability: durability)
        }
      case 6: await attempt(on: store) { () throws(StoreError) in try await store.sync() }
      default:
        await step([(key, value)], on: store) { _ in
          try await store.set(value, forKey: key, durability: durability)
        }
      }
    }
  }

  private func step(
    _ step: PossibleStates.Step, on store: Store,
    _ body: (PossibleStates.Step) async throws -> Void
  ) async {
    if injector.hasStruck { writesSinceStrike += 1 }
    do {
      try await body(step)
      possible.acknowledged(step)
    } catch {
      judge(untyped: error)
      checkPoison(of: store)
      let isPoisoned = store.poison != nil
      // The first write after the fault may get the error of work that was begun earlier.
      let mayRefuse = misfortune.isPermanent || isPoisoned || writesSinceStrike < 2
      #expect(mayRefuse, "write \(writesSinceStrike) after the fault: \(error); \(what)")
      if isPoisoned, !wasPoisoned { possible.maybe(step) }
      wasPoisoned = isPoisoned
    }
    for (key, _) in step { await see(key, in: store) }
  }

  func attempt(on store: Store, _ body: () async throws(StoreError) -> Void) async {
    do throws(StoreError) { try await body() } catch { judge(error) }
    checkPoison(of: store)
    wasPoisoned = store.poison != nil
  }
}
