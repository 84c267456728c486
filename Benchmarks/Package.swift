// swift-tools-version: 6.2

import PackageDescription

// A separate package, so that the peers never become dependencies of a user's package.
let moraine: Target.Dependency = .product(name: "Moraine", package: "Moraine")
let engine: Target.Dependency = .product(name: "MoraineEngine", package: "Moraine")
let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")
let arguments: Target.Dependency = .product(
  name: "ArgumentParser", package: "swift-argument-parser")
let histogram: Target.Dependency = .product(name: "Histogram", package: "hdrhistogram-swift")

let package = Package(
  name: "MoraineBenchmarks",
  platforms: [.macOS(.v15)],
  traits: [.trait(name: "S3", description: "Archives in buckets, for MoraineArchiveBench.")],
  dependencies: [
    .package(
      name: "Moraine", path: "..",
      traits: [.trait(name: "S3", condition: .when(traits: ["S3"]))]),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.0.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
  ],
  targets: [
    // Moraine alone: its purposes, at the sizes of its goals.
    .executableTarget(
      name: "MoraineBenchmark",
      dependencies: ["BenchmarkSupport", moraine, engine, arguments, system, histogram]),
    // Moraine and its peers, side by side.
    .executableTarget(
      name: "MoraineCompare",
      dependencies: [
        "BenchmarkSupport", "CPeers", moraine, engine, arguments, system, histogram,
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ]),
    // Archives: their cost for writers, restores, followers.
    .executableTarget(
      name: "MoraineArchiveBench",
      dependencies: [
        "BenchmarkSupport", moraine, arguments, system,
        .product(name: "MoraineArchive", package: "Moraine"),
        .product(name: "MoraineS3", package: "Moraine", condition: .when(traits: ["S3"])),
      ]),
    // The common parts of all programs: seeded data, folders, tables.
    .target(name: "BenchmarkSupport", dependencies: [system]),
    // One interface for the C interfaces of all peers. Installed libraries are loaded at run time.
    .target(name: "CPeers"),
    .testTarget(name: "MoraineCompareTests", dependencies: ["MoraineCompare"]),
    // The operations that Scripts/instructions counts.
    .executableTarget(
      name: "MoraineInstructions",
      dependencies: ["CFixedRandom", "MoraineMaterial", moraine, engine, system]),
    // Makes a store's hash key the same in each run.
    .target(name: "CFixedRandom"),
    .target(name: "MoraineMaterial", dependencies: [engine]),
    // swift package --package-path Benchmarks benchmark
    .executableTarget(
      name: "MoraineMicro",
      dependencies: [
        "MoraineMaterial", moraine, engine, system,
        .product(name: "Benchmark", package: "benchmark"),
      ],
      path: "Benchmarks/MoraineMicro",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
  ]
)
