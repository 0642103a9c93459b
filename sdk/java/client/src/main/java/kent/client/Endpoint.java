package kent.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The address of a daemon: its displayed name, {@code HOST:PORT} or {@code unix:PATH}, and whether
 * it uses TLS.
 */
record Endpoint(String name, boolean tls) {
    private static final Pattern TEXT =
            Pattern.compile(
                    "(?:(https?)://)?((?:\\[[0-9a-fA-F:.]+\\]|[^\\s:/\\[\\]]+):(\\d{1,5}))/*");
    private static final Pattern LOOPBACK = Pattern.compile("127(\\.\\d{1,3}){3}");

    /**
     * Parses an endpoint. An endpoint without a scheme uses TLS if the client has a CA or a
     * certificate.
     */
    static Endpoint parse(String text, boolean certified) {
        if (text.startsWith("unix:/")) {
            return new Endpoint(text, false);
        }
        Matcher match = TEXT.matcher(text);
        if (match.matches()) {
            int port = Integer.parseInt(match.group(3));
            if (port >= 1 && port <= 65535) {
                String scheme = match.group(1);
                boolean tls = scheme == null ? certified : scheme.equals("https");
                return new Endpoint(match.group(2), tls);
            }
        }
        throw new KentException.Config(
                "endpoint '"
                        + text
                        + "': it must be HOST:PORT, https://HOST:PORT or unix:/PATH, such as"
                        + " 127.0.0.1:7600");
    }

    boolean isUnix() {
        return name.startsWith("unix:");
    }

    /** The target that gRPC dials. */
    String target() {
        return isUnix() ? name : "dns:///" + name;
    }

    /**
     * Whether the endpoint is on this machine or uses TLS. Otherwise, a token could be read on the
     * network.
     */
    boolean isPrivate() {
        if (tls || isUnix()) {
            return true;
        }
        String host = name.substring(0, name.lastIndexOf(':'));
        if (host.startsWith("[")) {
            try {
                return InetAddress.getByName(host).isLoopbackAddress();
            } catch (UnknownHostException notAnAddress) {
                return false;
            }
        }
        return host.equals("localhost") || LOOPBACK.matcher(host).matches();
    }
}
