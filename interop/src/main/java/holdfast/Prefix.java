package holdfast;

import org.redisson.config.NameMapper;

/** Adds a prefix to all names, as services do that share a server. */
public final class Prefix implements NameMapper {
    private String prefix = "";

    public String getPrefix() {
        return prefix;
    }

    public void setPrefix(String prefix) {
        this.prefix = prefix;
    }

    @Override
    public String map(String name) {
        return prefix + name;
    }

    @Override
    public String unmap(String name) {
        return name.substring(prefix.length());
    }
}
