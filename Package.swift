// swift-tools-version: 6.2

import PackageDescription

let settings: [SwiftSetting] = [
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
]

let system: Target.Dependency = .product(name: "SystemPackage", package: "swift-system")

let package = Package(
  name: "Moraine",
  platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
  products: [
    .library(name: "Moraine", targets: ["Moraine"]),
    .library(name: "MoraineEngine", targets: ["MoraineEngine"]),
    .library(name: "MoraineTesting", targets: ["MoraineTesting"]),
    .executable(name: "moraine", targets: ["MoraineCommand"]),
  ],
  // None is on by default: who asks for none gets none of the packages behind them.
  traits: [
    .trait(name: "Logging", description: "A store's events as messages of swift-log."),
    .trait(name: "Metrics", description: "A store's events and figures in swift-metrics."),
    .trait(name: "ServiceLifecycle", description: "A store as a service that ends in order."),
    .trait(name: "ConfigurationReader", description: "Settings read by swift-configuration."),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.5.0"),
    .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.0"),
    // Behind traits.
    .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.0.0", traits: []),
  ],
  targets: [
    // The one system library of the project.
    .systemLibrary(
      name: "CLZ4",
      pkgConfig: "liblz4",
      providers: [.apt(["liblz4-dev"]), .brew(["lz4"])]
    ),
    // What Swift cannot say: processor instructions, variadic and platform system calls.
    .target(name: "CMoraineShims"),
    // Bytes <-> records. No I/O.
    .target(
      name: "MoraineFormat",
      dependencies: ["CLZ4", "CMoraineShims"],
      swiftSettings: settings
    ),
    // The only module that touches the operating system.
    .target(
      name: "MoraineStorage",
      dependencies: ["CMoraineShims", system],
      swiftSettings: settings
    ),
    // Store, index, recovery. No Foundation.
    .target(
      name: "MoraineEngine",
      dependencies: ["MoraineFormat", "MoraineStorage", system],
      swiftSettings: settings
    ),
    // What an app imports. Foundation lives here.
    .target(
      name: "Moraine",
      dependencies: [
        "MoraineEngine", system,
        .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Logging"])),
        .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
        .product(
          name: "ServiceLifecycle", package: "swift-service-lifecycle",
          condition: .when(traits: ["ServiceLifecycle"])),
        .product(
          name: "Configuration", package: "swift-configuration",
          condition: .when(traits: ["ConfigurationReader"])),
      ],
      swiftSettings: settings
    ),
    // Means to test recovery: ours and an embedder's.
    .target(
      name: "MoraineTesting",
      dependencies: [
        "MoraineEngine", "MoraineStorage", system,
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      swiftSettings: settings
    ),
    .executableTarget(
      name: "MoraineCommand",
      dependencies: [
        "Moraine", "MoraineFormat", "MoraineTesting", system,
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      swiftSettings: settings
    ),
    // The main job on real input; run by Scripts/demo.
    .executableTarget(
      name: "moraine-demo",
      dependencies: [
        "MoraineEngine", system,
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      path: "Sources/MoraineDemo",
      exclude: ["Data"],
      swiftSettings: settings
    ),
    .testTarget(name: "MoraineArchitectureTests", swiftSettings: settings),
    // Runs the built command as its users do.
    .testTarget(
      name: "MoraineCommandTests",
      dependencies: [
        "MoraineCommand", "MoraineFormat", "MoraineTesting", system,
        .product(name: "Subprocess", package: "swift-subprocess"),
      ],
      swiftSettings: settings
    ),
    // What tests need and Swift cannot say: fork.
    .target(name: "CTestSupport", path: "Tests/Support"),
    .testTarget(
      name: "MoraineEngineTests",
      dependencies: [
        "CMoraineShims", "CTestSupport", "MoraineEngine", "MoraineFormat", "MoraineStorage",
        "MoraineTesting", system,
      ],
      swiftSettings: settings
    ),
    // What the fuzzers check of an input; the ordinary tests run it on the corpus.
    .target(
      name: "MoraineFuzzing",
      dependencies: ["MoraineEngine", "MoraineFormat", "MoraineStorage", system],
      path: "Tests/Fuzzing/Bodies",
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineFuzzingTests",
      dependencies: ["MoraineFuzzing"],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineFormatTests",
      dependencies: ["MoraineFormat", "CLZ4", "CMoraineShims"],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineTestingTests",
      dependencies: ["MoraineEngine", "MoraineStorage", "MoraineTesting", system],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineTests",
      dependencies: ["Moraine", "MoraineStorage", "MoraineTesting", system],
      swiftSettings: settings
    ),
    // Every Swift line of the README and the articles, compiled and run.
    .testTarget(
      name: "MoraineDocumentationTests",
      dependencies: ["Moraine", "MoraineEngine", "MoraineTesting", system],
      swiftSettings: settings
    ),
    .testTarget(
      name: "MoraineStorageTests",
      dependencies: ["CTestSupport", "MoraineStorage", system],
      swiftSettings: settings
    ),
  ]
)

// What makes pages of the documentation is no part of an ordinary build: Scripts/documentation sets
// this.
if Context.environment["MORAINE_DOCUMENTATION"] != nil {
  package.dependencies.append(
    .package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.4.0"))
}

// Nor is libFuzzer: Scripts/fuzz sets this.
if Context.environment["MORAINE_FUZZING"] != nil {
  package.products.append(.executable(name: "moraine-fuzz", targets: ["moraine-fuzz"]))
  package.targets.append(
    .executableTarget(
      name: "moraine-fuzz",
      dependencies: ["MoraineFuzzing", "MoraineStorage"],
      path: "Tests/Fuzzing/Driver",
      swiftSettings: settings))
}
