package kent.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.StringWriter;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the examples in the README and in docs/clients.md. */
class ReadmeIT {
    private static final Pattern EXAMPLE = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final Pattern NAME = Pattern.compile("public (?:class|@interface) (\\w+)");

    private static final String ENTITY =
            """
            import jakarta.persistence.Entity;
            import jakarta.persistence.Id;
            import java.util.UUID;
            import org.hibernate.cfg.Configuration;

            @Entity
            public class Event {
                @Id @KentId UUID id;

                public static UUID saved() {
                    Configuration settings = new Configuration().addAnnotatedClass(Event.class);
                    settings.setProperty("hibernate.connection.url", "jdbc:h2:mem:events");
                    settings.setProperty("hibernate.hbm2ddl.auto", "create");
                    try (var factory = settings.buildSessionFactory()) {
                        Event event = new Event();
                        factory.inTransaction(session -> session.persist(event));
                        return factory.fromSession(session -> session.find(Event.class, event.id)).id;
                    }
                }
            }
            """;

    @TempDir Path directory;

    /** A source file in memory. */
    private static final class Text extends SimpleJavaFileObject {
        private final String text;

        Text(String name, String text) {
            super(URI.create("string:///" + name + ".java"), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreErrors) {
            return text;
        }
    }

    private static String nameOf(String example) {
        Matcher name = NAME.matcher(example);
        assertTrue(name.find(), example);
        return name.group(1);
    }

    private ClassLoader compile(List<String> examples) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StringWriter messages = new StringWriter();
        List<String> options =
                List.of("-d", directory.toString(), "-cp", System.getProperty("java.class.path"));
        var sources = examples.stream().map(text -> new Text(nameOf(text), text)).toList();
        boolean compiled = compiler.getTask(messages, null, null, options, null, sources).call();
        assertTrue(compiled, messages.toString());
        return new URLClassLoader(
                new URL[] {directory.toUri().toURL()}, ReadmeIT.class.getClassLoader());
    }

    @Test
    void okTheExamplesOfTheDocsRun(@TempDir Path data) throws Exception {
        try (Daemon daemon = new Daemon(data)) {
            daemon.kent("region", "create", "orders", "--suffix", "40");
            daemon.kent("region", "create", "r1", "--suffix", "40");
            List<String> examples = new ArrayList<>(List.of(ENTITY));
            for (String page : List.of("sdk/java/README.md", "docs/clients.md")) {
                String text = Files.readString(Daemon.ROOT.resolve(page));
                Matcher example = EXAMPLE.matcher(text.replace("127.0.0.1:7600", daemon.address()));
                while (example.find()) {
                    examples.add(example.group(1));
                }
            }
            assertTrue(examples.size() >= 4, examples.toString());
            ClassLoader classes = compile(examples);
            for (String example : examples) {
                if (example.contains("void main(")) {
                    classes.loadClass(nameOf(example))
                            .getMethod("main", String[].class)
                            .invoke(null, (Object) new String[0]);
                }
            }
            // Hibernate looks for entities with this class loader.
            Thread.currentThread().setContextClassLoader(classes);
            UUID saved = (UUID) classes.loadClass("Event").getMethod("saved").invoke(null);
            assertEquals(7, saved.version());
        } finally {
            Thread.currentThread().setContextClassLoader(ReadmeIT.class.getClassLoader());
        }
    }
}
