import com.github.f4b6a3.tsid.Tsid;
import com.github.f4b6a3.tsid.TsidFactory;
import com.tencent.devops.leaf.common.PropertyFactory;
import com.tencent.devops.leaf.snowflake.SnowflakeIDGenImpl;
import com.xfvape.uid.BitsAllocator;
import com.xfvape.uid.impl.DefaultUidGenerator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads lines LAYOUT<tab>ID from standard input, and prints the fields that a library finds in each identifier as JSON.
 * Then prints the identifiers that the library generates: Presets COUNT MACHINE. The time zone must be UTC, because
 * Baidu's library reads and prints local times.
 */
public final class Presets {
  /** What a library finds in an identifier: the bits, and the fields in JSON. */
  private record Read(long bits, String fields) {}

  /** A library, which reads identifiers and generates its own. */
  private record Library(String name, Function<String, Read> read, Supplier<String> generate) {}

  private static Read read(long bits, long unixMs, long machine, long sequence) {
    return new Read(bits, "\"unix_ms\":%d,\"machine\":%d,\"sequence\":%d".formatted(unixMs, machine, sequence));
  }

  private static Library tsid(int node) {
    TsidFactory factory = TsidFactory.builder().withNodeBits(10).withNode(node).build();
    return new Library(
        "com.github.f4b6a3:tsid-creator",
        text -> {
          Tsid id = Tsid.from(text);
          // The library has no getters for the 10 bits of the node and the 12 bits of the counter.
          return read(id.toLong(), id.getUnixMilliseconds(), (id.toLong() >> 12) & 1023, id.toLong() & 4095);
        },
        () -> factory.create().toString());
  }

  private static final Pattern UID =
      Pattern.compile("\"timestamp\":\"([^\"]*)\",\"workerId\":\"(\\d+)\",\"sequence\":\"(\\d+)\"");

  private static Library baidu(DefaultUidGenerator generator, Supplier<Long> next) {
    return new Library(
        "com.xfvape.uid:uid-generator",
        text -> {
          long id = Long.parseLong(text);
          Matcher found = UID.matcher(generator.parseUID(id));
          if (!found.find()) {
            throw new IllegalArgumentException(text);
          }
          LocalDateTime at = LocalDateTime.parse(found.group(1), DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss"));
          long unixMs = at.toInstant(ZoneOffset.UTC).toEpochMilli();
          return read(id, unixMs, Long.parseLong(found.group(2)), Long.parseLong(found.group(3)));
        },
        () -> Long.toString(next.get()));
  }

  private static Library baidu(int machine) throws Exception {
    DefaultUidGenerator generator = new DefaultUidGenerator();
    generator.setWorkerIdAssigner(() -> machine);
    generator.setEpochStr("2026-01-01");
    generator.afterPropertiesSet();
    return baidu(generator, generator::getUID);
  }

  /** The default epoch, whose time has ended: so these identifiers are of 2023-11-14T22:13:20Z. */
  private static Library baiduOfThePast(int machine) throws Exception {
    DefaultUidGenerator generator = new DefaultUidGenerator();
    generator.setWorkerIdAssigner(() -> machine);
    generator.afterPropertiesSet();
    BitsAllocator bits = new BitsAllocator(28, 22, 13);
    long[] sequence = {0};
    return baidu(generator, () -> bits.allocate(1_700_000_000L - 1_463_673_600L, machine, sequence[0]++));
  }

  /** Generates with Leaf. Reads with the formulas of LeafMonitorController.decodeSnowflakeId, which no package has. */
  private static Library leaf(int machine) throws Exception {
    // Without ZooKeeper, Leaf takes the worker ID from this file.
    PropertyFactory.setLeafName("presets");
    int port = 1;
    Path file = Path.of(System.getProperty("java.io.tmpdir"), "presets", "leafconf", "" + port, "workerID.properties");
    Files.createDirectories(file.getParent());
    Files.writeString(file, "workerID=" + machine);
    SnowflakeIDGenImpl generator = new SnowflakeIDGenImpl("127.0.0.1:" + port, port);
    return new Library(
        "com.tencent.devops.leaf:leaf-core",
        text -> {
          long id = Long.parseLong(text);
          return read(id, (id >> 22) + 1288834974657L, (id >> 12) ^ (id >> 22 << 10), id ^ (id >> 12 << 12));
        },
        () -> Long.toString(generator.get("").getId()));
  }

  private static void print(String layout, Library library, String from, String id) {
    String found;
    try {
      Read read = library.read.apply(id);
      found = "\"hex\":\"%016x\",\"fields\":{%s}".formatted(read.bits, read.fields);
    } catch (RuntimeException error) {
      found = "\"error\":\"%s\"".formatted(error.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " "));
    }
    System.out.printf(
        "{\"layout\":\"%s\",\"library\":\"%s\",\"from\":\"%s\",\"id\":\"%s\",%s}%n", layout, library.name, from, id, found);
  }

  public static void main(String[] arguments) throws Exception {
    int count = Integer.parseInt(arguments[0]);
    int machine = Integer.parseInt(arguments[1]);
    Map<String, Library> libraries =
        Map.of("tsid", tsid(machine), "baidu-uid", baidu(machine), "leaf-snowflake", leaf(machine));
    Set<String> layouts = new LinkedHashSet<>();
    for (String line : new String(System.in.readAllBytes()).split("\n")) {
      String[] parts = line.split("\t");
      layouts.add(parts[0]);
      print(parts[0], libraries.get(parts[0]), "kent", parts[1]);
    }
    for (String layout : layouts) {
      for (int number = 0; number < count; number++) {
        Library library = libraries.get(layout);
        print(layout, library, "library", library.generate.get());
      }
    }
    Library past = baiduOfThePast(machine);
    for (int number = 0; number < count; number++) {
      print("baidu-uid-2016", past, "library", past.generate.get());
    }
    System.exit(0); // Leaf keeps looking for ZooKeeper.
  }
}
