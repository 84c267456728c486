import Foundation
import Testing

/// Tests of the dependencies that the layout of the package prescribes.
@Suite struct ArchitectureTests {
  /// Modules that each module may import, beside itself.
  static let allowed: [String: Set<String>] = [
    "MoraineFormat": ["CLZ4", "CMoraineShims"],
    "MoraineStorage": [
      "CMoraineShims", "SystemPackage", "Synchronization", "Darwin", "Glibc", "Musl",
    ],
    "MoraineEngine": ["MoraineFormat", "MoraineStorage", "SystemPackage", "Synchronization"],
    "Moraine": [
      "MoraineEngine", "SystemPackage", "Synchronization", "Foundation", "Observation", "Combine",
      "SwiftUI",
    ],
    "MoraineArchive": [
      "MoraineEngine", "MoraineFormat", "MoraineStorage", "SystemPackage", "Synchronization",
    ],
    "MoraineS3": [
      "MoraineArchive", "MoraineEngine", "MoraineStorage", "SystemPackage", "Synchronization",
      "AsyncHTTPClient", "Crypto", "NIOCore", "NIOHTTP1", "NIOPosix", "NIOSSL",
    ],
    "MoraineTesting": [
      "MoraineArchive", "MoraineEngine", "MoraineStorage", "SystemPackage", "Synchronization",
      "Subprocess",
      "Foundation",
    ],
    "MoraineCommand": [
      "Moraine", "MoraineArchive", "MoraineFormat", "MoraineS3", "MoraineTesting",
      "ArgumentParser", "Foundation", "Subprocess",
      "SystemPackage", "Synchronization",
    ],
    "MoraineDemo": [
      "MoraineEngine", "SystemPackage", "Subprocess", "Foundation", "Synchronization",
    ],
  ]

  /// Packages that may be imported only in this folder, each with its trait.
  static let integrations = "Moraine/Integrations/"
  static let traits = [
    "Logging": "Logging", "Metrics": "Metrics", "ServiceLifecycle": "ServiceLifecycle",
    "ConfigurationReader": "Configuration",
  ]

  @Test(arguments: allowed.keys.sorted())
  func importsPointDown(module: String) throws {
    let permitted = try #require(Self.allowed[module])
    for file in try Source.files(in: module) {
      let more = file.trait.flatMap { Self.traits[$0] }
      for name in file.imports where !permitted.contains(name) && name != more {
        Issue.record("\(file.path) imports \(name)")
      }
    }
  }

  /// Without traits the library contains no integration, and so none of their packages.
  @Test func integrationsAreCompiledOnlyWithTheirTraits() throws {
    let files = try Source.files(in: "Moraine").filter { $0.path.hasPrefix(Self.integrations) }
    #expect(Set(files.compactMap(\.trait)) == Set(Self.traits.keys))
    #expect(files.allSatisfy { $0.trait != nil })
    let parts = try Self.manifest.components(separatedBy: ".default(")
    #expect(parts.count == 2)
    #expect(
      parts.last?.hasPrefix("enabledTraits: [\"Command\"])") == true,
      "no trait of an integration is enabled by default")
  }

  private static var manifest: String {
    get throws {
      try String(
        contentsOf: Source.root.deletingLastPathComponent().appending(path: "Package.swift"),
        encoding: .utf8)
    }
  }

  /// A library that opts out of the trait fetches no package of the command.
  @Test func packagesOfTheCommandAreUsedOnlyWithItsTrait() throws {
    for file in try Source.files(in: "MoraineTesting")
    where file.code.contains("import Subprocess") || file.code.contains("KillRun(") {
      #expect(file.condition == "Command", "\(file.path)")
    }
    let packages = try Self.manifest.components(separatedBy: "package: \"").dropFirst()
    for package in packages
    where package.hasPrefix("swift-subprocess") || package.hasPrefix("swift-argument-parser") {
      let rest = package.drop { $0 != "\"" }.dropFirst().filter { !$0.isWhitespace }
      #expect(rest.hasPrefix(",condition:.when(traits:[\"Command\"])"), "\(package.prefix(40))")
    }
  }

  /// Without the trait the module is empty, and no program needs an HTTP client.
  @Test func bucketsAreCompiledOnlyWithTheirTrait() throws {
    let files = try Source.files(in: "MoraineS3")
    #expect(files.count > 10)
    for file in files {
      let text = file.lines.filter { !$0.isEmpty }
      #expect(text.first == "#if S3" && text.last == "#endif", "\(file.path)")
      #expect(text.count { $0.hasPrefix("#") } == 2, "\(file.path)")
    }
  }

  /// With the trait PortableLZ4, and where no `liblz4` exists, no file imports the library.
  @Test func oneFolderImportsTheLibraryOfLZ4() throws {
    let files = try Source.modules().flatMap { try Source.files(in: $0) }
    let users = files.filter { $0.imports.contains("CLZ4") }
    #expect(users.count == 3)
    for file in users {
      #expect(file.path.hasPrefix("MoraineFormat/Compression/System/"), "\(file.path)")
      let text = file.lines.filter { !$0.isEmpty }
      #expect(
        text.first == "#if LIBLZ4 && !PortableLZ4" && text.last == "#endif", "\(file.path)")
      #expect(text.count { $0.hasPrefix("#") } == 2, "\(file.path)")
    }
  }

  /// The LZ4 in Swift reads blocks and values through spans that check the bounds.
  @Test func lz4InSwiftReadsThroughCheckedSpans() throws {
    let files = try Source.files(in: "MoraineFormat").filter {
      $0.path.hasPrefix("MoraineFormat/Compression/Portable/")
    }
    #expect(files.count == 6)
    for file in files {
      let words = [
        "nchecked", "UnsafeRawPointer", "UnsafePointer", "_unsafe", ".load(", "unsafeBitCast",
      ]
      for word in words where file.code.contains(word) {
        Issue.record("\(file.path) says \(word)")
      }
    }
  }

  @Test func everyModuleHasARule() throws {
    let swiftModules = try Source.modules().filter { try !Source.files(in: $0).isEmpty }
    #expect(Set(swiftModules) == Set(Self.allowed.keys))
  }

  /// `try?` hides damage; `try!` and the queue types are for other programs.
  @Test(arguments: allowed.keys.sorted())
  func forbiddenWordsStayOut(module: String) throws {
    for file in try Source.files(in: module) {
      for word in [" try?", "(try?", "try!", "DispatchQueue", "NSLock", " as! "]
      where file.code.contains(word) {
        Issue.record("\(file.path) says \(word)")
      }
    }
  }

  /// Paths and errors of swift-system may be used everywhere, its files may not: the laboratory
  /// could not make their calls fail.
  @Test(arguments: ["MoraineFormat", "MoraineEngine", "MoraineArchive", "MoraineS3", "Moraine"])
  func systemCallsStayInStorage(module: String) throws {
    let pure = ["moraine_crc32c", "moraine_crc32c_place", "moraine_store_release_u32"]
    for file in try Source.files(in: module) {
      // Not the error `badFileDescriptor`.
      if file.code.contains(/\bFileDescriptor/) { Issue.record("\(file.path) opens files itself") }
      for call in file.code.matches(of: /moraine_\w+/) where !pure.contains(String(call.output)) {
        Issue.record("\(file.path) calls \(call.output)")
      }
    }
  }

  /// The time of day can be set back: nothing waits for it.
  @Test func oneFileReadsTheTimeOfDay() throws {
    let files = try Source.modules().flatMap { try Source.files(in: $0) }
    let readers = files.filter { $0.code.contains("CLOCK_REALTIME") }.map(\.path)
    #expect(readers == ["MoraineStorage/SystemClock.swift"])
  }

  @Test func filesStayShort() throws {
    for module in try Source.modules() {
      for file in try Source.files(in: module) where file.lineCount > 600 {
        Issue.record("\(file.path) has \(file.lineCount) lines; a type may have 600")
      }
    }
  }

  @Test func functionsStayShort() throws {
    var longest = 0
    for module in try Source.modules() {
      for file in try Source.files(in: module) {
        for (line, length) in file.functions {
          longest = max(longest, length)
          if length >= 70 { Issue.record("\(file.path):\(line): a function of \(length) lines") }
        }
      }
    }
    #expect(longest > 40, "no function was found")
  }
}

/// `swift format` keeps code within 100 columns, but not comments.
extension ArchitectureTests {
  @Test func commentsFitTheColumns() throws {
    for module in try Source.modules() {
      for file in try Source.files(in: module) {
        for (number, line) in file.lines.enumerated()
        where line.count > 100 && line.drop(while: { $0 == " " }).hasPrefix("//") {
          Issue.record("\(file.path):\(number + 1) has \(line.count) columns")
        }
      }
    }
  }
}

/// A source file of the package.
struct Source {
  let path: String
  let lines: [Substring]

  static let root = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appending(path: "Sources")

  static func modules() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: root.path).sorted()
  }

  static func files(in module: String) throws -> [Source] {
    let folder = root.appending(path: module)
    let names = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
    return try names.filter { $0.hasSuffix(".swift") }.sorted().map { name in
      let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      return Source(
        path: "\(module)/\(name)",
        lines: text.split(separator: "\n", omittingEmptySubsequences: false))
    }
  }

  var lineCount: Int { lines.count }

  /// First lines of the functions, counted from 1, and the number of lines of each. `swift format`
  /// places the closing brace below the first word of the function.
  var functions: [(line: Int, length: Int)] {
    lines.indices.compactMap { first in
      let words = lines[first].split(separator: " ")
      guard words.first?.hasPrefix("//") == false else { return nil }
      let begins = words.contains { $0 == "func" || $0.hasPrefix("init(") || $0 == "var" }
      guard begins, lines[first].last == "{" || lines[first].last == "(" else { return nil }
      let end = lines[first].prefix { $0 == " " } + "}"
      return lines[first...].firstIndex { $0 == end }.map { (first + 1, $0 - first + 1) }
    }
  }

  var imports: [String] {
    lines.compactMap { line in
      let words = line.split(separator: " ")
      guard let place = words.firstIndex(of: "import"), !line.hasPrefix("//"),
        words[..<place].allSatisfy({ $0.first == "@" || $0 == "public" || $0 == "package" })
      else { return nil }
      // In `import struct Module.Name`, the module stands before the point.
      return words.last?.split(separator: ".").first.map(String.init)
    }
  }

  /// The trait that a whole file of an integration depends on.
  var trait: String? {
    path.hasPrefix(ArchitectureTests.integrations) ? condition : nil
  }

  /// The condition around the whole file; nil when there is none.
  var condition: String? {
    guard let first = lines.first, first.hasPrefix("#if "),
      lines.last(where: { !$0.isEmpty }) == "#endif",
      lines.count(where: { $0.hasPrefix("#") }) == 2
    else { return nil }
    return String(first.dropFirst(4))
  }

  /// The code without comments.
  var code: String {
    lines.map { line in line.firstRange(of: "//").map { line[..<$0.lowerBound] } ?? line }
      .joined(separator: "\n")
  }
}
