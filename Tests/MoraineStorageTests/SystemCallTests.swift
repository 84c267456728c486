import MoraineStorage
import SystemPackage
import Testing

/// Interrupted and short calls are completed or fail; a part is never taken for the whole.
@Suite struct SystemCallTests {
  @Test func remainderOfAShortCallIsRequested() throws {
    var places: [Int] = []
    let done = try SystemCall.completing("write", "f", count: 10, at: 100) { done in
      places.append(done)
      return done == 9 ? 1 : 3
    }
    #expect(done == 10)
    #expect(places == [0, 3, 6, 9])
  }

  @Test func anInterruptedCallIsRepeated() throws {
    var interruptions = 0
    let done = try SystemCall.completing("write", "f", count: 6, at: 0) { _ in
      interruptions += 1
      return interruptions.isMultiple(of: 2) ? 2 : -Int(Errno.interrupted.rawValue)
    }
    #expect(done == 6)
    #expect(interruptions == 6)
  }

  @Test func anErrorAfterAPartNamesThePlace() throws {
    do throws(StorageError) {
      _ = try SystemCall.completing("write", "f", count: 8, at: 1000) { done in
        done < 4 ? 4 : -Int(Errno.noSpace.rawValue)
      }
      Issue.record("a part was taken for the whole")
    } catch {
      #expect(error.errno == .noSpace)
      #expect(error.offset == 1004)
      #expect(error.file == "f")
    }
  }

  @Test func theEndOfAFileEndsAReading() throws {
    let done = try SystemCall.completing("read", "f", count: 8, at: 0) { $0 < 5 ? 5 : 0 }
    #expect(done == 5)
  }

  @Test func callWithoutProgressIsAnErrorWhenAllBytesAreRequired() throws {
    let error = #expect(throws: StorageError.self) {
      try SystemCall.completingAll("write", "f", count: 8, at: 1000) { $0 < 5 ? 5 : 0 }
    }
    #expect(error?.errno == .ioError)
    #expect(error?.file == "f")
    #expect(error?.offset == 1005)
    try SystemCall.completingAll("write", "f", count: 8, at: 1000) { _ in 4 }
  }
}
