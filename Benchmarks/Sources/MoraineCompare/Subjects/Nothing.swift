/// Measures the cost of the harness itself: it makes keys, fetches values and stores nothing.
struct NothingMaker: SubjectMaker {
  var engine: Report.Engine {
    Report.Engine(
      name: "harness", title: "(harness)", version: "",
      settings: "does nothing: the floor under every row")
  }

  func open(in path: String, _ options: SubjectOptions) -> Nothing { Nothing() }
}

struct Nothing: Subject {
  static var blocks: Bool { true }

  @inline(never)
  func put(_ key: KeyBytes, _ value: [UInt8]) {}
  @inline(never)
  func remove(_ key: KeyBytes) {}
  func put(_ numbers: some Collection<Int> & Sendable, of data: Dataset, generation: Int) {
    for number in numbers { put(data.key(number), data.value(number, generation: generation)) }
  }
  func compact() {}
  func close() {}
  func reader() -> NothingReader { NothingReader() }
}

struct NothingReader: SubjectReader {
  func refresh() {}
  @inline(never)
  func has(_ key: KeyBytes, _ value: [UInt8]) -> Bool { true }
  @inline(never)
  func contains(_ key: KeyBytes) -> Bool { false }
  func scan() -> ScanSum { ScanSum() }
}
