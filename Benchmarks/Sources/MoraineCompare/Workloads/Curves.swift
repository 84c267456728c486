import BenchmarkSupport

/// Measures the opening time as a store grows: close, open, one get.
struct OpenCurve: Workload {
  static let name = "open"
  let counts: [Int]

  init(_ size: Size) { counts = size.openCounts }

  var rows: [Report.Row] { [] }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let place = try make("open", in: folder)
    var filled = 0
    for count in counts {
      let data = Dataset(count: count)
      let store = try await maker.open(in: place, SubjectOptions(data))
      for number in filled..<count { try await store.put(data.key(number), data.value(number)) }
      filled = count
      try await store.close()
      let milliseconds = try await recorder.open(
        maker, place, data, data.value(data.order[0]), of: data.order[0])
      recorder.add("open", x: Double(count), y: milliseconds)
    }
  }
}

/// Measures the disk space of a store of constant content that is overwritten repeatedly.
struct SpaceCurve: Workload {
  static let name = "space"
  private static let roundCount = 8
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count / 2, isCompressible: false) }

  var rows: [Report.Row] { [] }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    let place = try make("space", in: folder)
    let store = try await maker.open(in: place, SubjectOptions(data))
    var generator = SplitMix64(seed: 3)
    for round in 0...Self.roundCount {
      for place in 0..<data.count {
        let number =
          round == 0 ? data.order[place] : Int.random(in: 0..<data.count, using: &generator)
        try await store.put(data.key(number), data.value(number, generation: round))
      }
      recorder.add(
        "space", x: Double(round), y: Double(try diskBytes(place)) / Double(data.bytes))
    }
    try await store.close()
  }
}
