import BenchmarkSupport
import Foundation

/// Measures how much space a store takes while all of it is overwritten without a pause, and how
/// much it writes for that: four times as many puts as there are keys.
///
/// Both figures are relative to the bytes that the engine itself needs for the same content once it
/// is compacted, so that neither heads of records nor compression count.
struct Overwriting: Workload {
  static let name = "overwriting"
  private static let roundCount = 4
  private static let samplesPerRound = 50
  let data: Dataset

  init(_ size: Size) { data = Dataset(count: size.count / 2, isCompressible: false) }

  private enum Pattern: String, CaseIterable {
    case uniform, skewed

    var meaning: String {
      switch self {
      case .uniform: "all keys alike"
      case .skewed: "nine puts of ten go to a tenth of the keys"
      }
    }

    func next(_ data: Dataset, _ generator: inout SplitMix64) -> Int {
      let isHot = self == .skewed && Int.random(in: 0..<10, using: &generator) > 0
      return data.order[
        Int.random(in: 0..<(isHot ? data.count / 10 : data.count), using: &generator)]
    }
  }

  var rows: [Report.Row] {
    Pattern.allCases.flatMap { pattern in
      let meaning = pattern.meaning
      return [
        row(
          "highest space, \(pattern)",
          "while overwriting, for each byte of the compacted store; \(meaning)", unit: "×"),
        row(
          "written, \(pattern)",
          "bytes sent to the disk for each stored byte that is put; \(meaning)", unit: "×"),
        row("overwrite, \(pattern)", "the puts of these rows; \(meaning)", durability: "none"),
      ]
    }
  }

  func run<Maker: SubjectMaker>(
    _ maker: Maker, in folder: String, _ recorder: inout Recorder
  ) async throws {
    for pattern in Pattern.allCases {
      try await run(pattern, maker, try make("\(pattern)", in: folder), &recorder)
    }
  }

  private func run<Maker: SubjectMaker>(
    _ pattern: Pattern, _ maker: Maker, _ place: String, _ recorder: inout Recorder
  ) async throws {
    let store = try await maker.open(in: place, SubjectOptions(data))
    for number in data.order { try await store.put(data.key(number), data.value(number)) }
    sync()
    let before = ThisProcess.writtenBytes
    var generations = [UInt8](repeating: 0, count: data.count)
    var generator = SplitMix64(seed: 5)
    var highest: UInt64 = 0
    let putCount = Self.roundCount * data.count
    var elapsed = Duration.zero
    for sample in 0..<(Self.roundCount * Self.samplesPerRound) {
      let count = putCount / (Self.roundCount * Self.samplesPerRound)
      elapsed += try await ContinuousClock().measure {
        for _ in 0..<count {
          let number = pattern.next(data, &generator)
          generations[number] &+= 1
          try await store.put(
            data.key(number), data.value(number, generation: Int(generations[number])))
        }
      }
      // The first round overwrites a store that has no garbage yet.
      if sample >= Self.samplesPerRound { highest = max(highest, try diskBytes(place)) }
    }
    sync()
    let after = ThisProcess.writtenBytes
    try await store.compact()
    var reader = try await store.reader()
    for number in data.order.prefix(1000) {
      let value = data.value(number, generation: Int(generations[number]))
      try recorder.check(try await reader.has(data.key(number), value), "overwriting")
    }
    reader.close()
    try await store.close()
    let compacted = Double(try diskBytes(place))
    recorder.add("overwrite, \(pattern)", elapsed.milliseconds * 1000 / Double(putCount))
    recorder.add("highest space, \(pattern)", Double(highest) / compacted)
    if let before, let after {
      let putBytes = compacted * Double(putCount) / Double(data.count)
      recorder.add("written, \(pattern)", Double(after - before) / putBytes)
    }
  }
}
