// swift-tools-version: 6.2

import PackageDescription

// A user's package that enables every trait of the integrations. Its tests test the integrations, which a build without
// traits does not contain. Scripts/clients runs the tests.
let package = Package(
  name: "IntegrationsClient",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(
      name: "Moraine", path: "../../..",
      traits: ["Logging", "Metrics", "ServiceLifecycle", "ConfigurationReader"]),
    .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.5.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.6.0"),
    .package(url: "https://github.com/apple/swift-configuration", from: "1.0.0", traits: []),
    .package(url: "https://github.com/apple/swift-system", from: "1.6.0"),
  ],
  targets: [
    .testTarget(
      name: "IntegrationsTests",
      dependencies: [
        .product(name: "Moraine", package: "Moraine"),
        .product(name: "MoraineTesting", package: "Moraine"),
        .product(name: "InMemoryLogging", package: "swift-log"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "MetricsTestKit", package: "swift-metrics"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
        .product(name: "ServiceLifecycleTestKit", package: "swift-service-lifecycle"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle"),
        .product(name: "Configuration", package: "swift-configuration"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      swiftSettings: [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .treatAllWarnings(as: .error),
      ])
  ]
)
