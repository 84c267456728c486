// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that what is measured against never enters a user's dependencies.
let package = Package(
  name: "MoraineBenchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "Moraine", path: ".."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    .package(url: "https://github.com/ordo-one/benchmark", from: "1.38.1", traits: []),
  ],
  targets: [
    .executableTarget(
      name: "MoraineBenchmark",
      dependencies: [
        .product(name: "Moraine", package: "Moraine"),
        .product(name: "MoraineEngine", package: "Moraine"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "Histogram", package: "hdrhistogram-swift"),
      ]),
    // What Scripts/instructions counts.
    .executableTarget(
      name: "MoraineInstructions",
      dependencies: [
        "CFixedRandom", "MoraineMaterial",
        .product(name: "MoraineEngine", package: "Moraine"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .target(name: "CFixedRandom"),
    .target(
      name: "MoraineMaterial",
      dependencies: [.product(name: "MoraineEngine", package: "Moraine")]),
    // swift package --package-path Benchmarks benchmark
    .executableTarget(
      name: "MoraineMicro",
      dependencies: [
        "MoraineMaterial",
        .product(name: "Benchmark", package: "benchmark"),
        .product(name: "Moraine", package: "Moraine"),
        .product(name: "MoraineEngine", package: "Moraine"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Benchmarks/MoraineMicro",
      plugins: [.plugin(name: "BenchmarkPlugin", package: "benchmark")]),
  ]
)
