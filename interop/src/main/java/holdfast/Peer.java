package holdfast;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Calls methods for another process by reflection. It has no code for Redisson:
 * all effects and answers are those of Redisson.
 *
 * <p>Each line of standard input is a JSON object with a call. Each answer is one
 * line on standard output. Answers are written when the calls end, not in the order
 * of the calls:
 *
 * <pre>
 * {"id":1,"thread":"a","on":"r","call":"getLock","args":["job"],"as":"lock"}
 * {"id":2,"thread":"a","on":"lock","call":"tryLock","args":[5,30,"SECONDS"]}
 * {"id":3,"thread":"a","times":1000,"calls":[{"on":"lock","call":"lock"},{"on":"lock","call":"unlock"}]}
 * </pre>
 *
 * <p>"thread" is the name of the thread that makes the call. A new name creates a
 * thread. To Redisson each thread is an owner. "on" is an object that an earlier
 * call kept with "as", or a class. The argument {"ref":"lock"} is such an object.
 * Strings are converted to enums and durations if the parameter has such a type.
 * "calls" are made in sequence, "times" times or until "millis" have passed. They
 * end at the first exception.
 *
 * <p>The answer has "value" or "error", and "spans": the start and the end of each
 * call in nanoseconds of the machine's monotonic clock. With "calls", "value" is
 * the list of the returned values. "owner" is the number of the thread.
 */
public final class Peer {
    private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private final Map<String, Object> kept = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        new Peer().serve(new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)));
        // End at once, without a shutdown of Redisson: its locks are not released.
        Runtime.getRuntime().halt(0);
    }

    private void serve(BufferedReader in) throws Exception {
        for (String line; (line = in.readLine()) != null; ) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            String name = command.has("thread") ? command.get("thread").getAsString() : "main";
            threads.computeIfAbsent(name, n -> Executors.newSingleThreadExecutor(r -> {
                Thread t = new Thread(r, n);
                t.setDaemon(true);
                return t;
            })).execute(() -> answer(command));
        }
    }

    private void answer(JsonObject command) {
        JsonObject answer = new JsonObject();
        answer.add("id", command.get("id"));
        answer.addProperty("owner", Thread.currentThread().getId());
        List<long[]> spans = new ArrayList<>();
        try {
            answer.add("value", command.has("calls") ? repeat(command, spans) : json(call(command, spans)));
        } catch (InvocationTargetException e) {
            answer.addProperty("error", e.getCause().toString());
        } catch (Throwable e) {
            answer.addProperty("error", "peer: " + e);
        }
        answer.add("spans", GSON.toJsonTree(spans));
        String line = GSON.toJson(answer);
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private JsonElement repeat(JsonObject command, List<long[]> spans) throws Throwable {
        long times = command.has("times") ? command.get("times").getAsLong() : Long.MAX_VALUE;
        long until = command.has("millis") ? System.nanoTime() + command.get("millis").getAsLong() * 1_000_000 : Long.MAX_VALUE;
        JsonArray values = new JsonArray();
        for (long i = 0; i < times && System.nanoTime() < until; i++) {
            for (JsonElement c : command.getAsJsonArray("calls")) {
                values.add(json(call(c.getAsJsonObject(), spans)));
            }
        }
        return values;
    }

    private Object call(JsonObject command, List<long[]> spans) throws Throwable {
        String on = command.get("on").getAsString();
        Object target = kept.get(on);
        Class<?> type = target != null ? target.getClass() : Class.forName(on);
        JsonArray args = command.has("args") ? command.getAsJsonArray("args") : new JsonArray();
        Method method = null;
        Object[] values = null;
        int best = NO;
        for (Method m : type.getMethods()) {
            if (!m.getName().equals(command.get("call").getAsString()) || m.getParameterCount() != args.size()
                    || (target == null && !Modifier.isStatic(m.getModifiers()))) {
                continue;
            }
            Object[] converted = new Object[args.size()];
            int cost = m.isBridge() ? 1 : 0;
            for (int i = 0; i < converted.length && cost < NO; i++) {
                cost += convert(args.get(i), m.getParameterTypes()[i], converted, i);
            }
            if (cost < best) {
                best = cost;
                method = m;
                values = converted;
            }
        }
        if (method == null) {
            throw new NoSuchMethodException(type.getName() + "." + command.get("call").getAsString() + args);
        }
        method.trySetAccessible(); // for public methods of classes that are not public
        long[] span = {System.nanoTime(), 0};
        spans.add(span);
        Object value;
        try {
            value = method.invoke(target, values);
        } finally {
            span[1] = System.nanoTime();
        }
        if (command.has("as")) {
            kept.put(command.get("as").getAsString(), value);
        }
        return value;
    }

    private static final int NO = 1 << 20; // the cost of an impossible conversion

    /** Converts e to a type, stores it in into[i], and returns the cost of the conversion. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private int convert(JsonElement e, Class<?> type, Object[] into, int i) {
        if (e.isJsonNull()) {
            return type.isPrimitive() ? NO : 0;
        }
        if (e.isJsonObject()) {
            into[i] = kept.get(e.getAsJsonObject().get("ref").getAsString());
            return into[i] != null && type.isInstance(into[i]) ? 0 : NO;
        }
        if (e.isJsonArray()) {
            Class<?> element = type.isArray() ? type.getComponentType() : Object.class;
            if (!type.isArray() && !type.isAssignableFrom(ArrayList.class)) {
                return NO;
            }
            Object[] elements = new Object[e.getAsJsonArray().size()];
            int cost = 0;
            for (int n = 0; n < elements.length && cost < NO; n++) {
                cost += convert(e.getAsJsonArray().get(n), element, elements, n);
            }
            if (cost >= NO) {
                return NO;
            }
            if (!type.isArray()) {
                into[i] = new ArrayList<>(List.of(elements));
                return cost + 1;
            }
            into[i] = Array.newInstance(element, elements.length);
            for (int n = 0; n < elements.length; n++) {
                Array.set(into[i], n, elements[n]);
            }
            return cost;
        }
        JsonPrimitive p = e.getAsJsonPrimitive();
        if (p.isBoolean()) {
            into[i] = p.getAsBoolean();
            return type == boolean.class || type == Boolean.class ? 0 : type == Object.class ? 10 : NO;
        }
        if (p.isNumber()) {
            if (type == long.class || type == Long.class) {
                into[i] = p.getAsLong();
                return 0;
            }
            if (type == int.class || type == Integer.class) {
                into[i] = p.getAsInt();
                return 2;
            }
            if (type == double.class || type == Double.class) {
                into[i] = p.getAsDouble();
                return 4;
            }
            into[i] = p.getAsLong();
            return type == Object.class ? 10 : NO;
        }
        String s = p.getAsString();
        if (type == String.class) {
            into[i] = s;
            return 0;
        }
        if (type.isEnum()) {
            try {
                into[i] = Enum.valueOf((Class) type, s);
                return 0;
            } catch (IllegalArgumentException x) {
                return NO;
            }
        }
        if (type == Duration.class && s.startsWith("PT")) {
            into[i] = Duration.parse(s);
            return 1;
        }
        into[i] = s;
        return type == Object.class ? 10 : NO;
    }

    /** Converts a value to JSON. Other types than numbers, booleans, strings and collections use toString. */
    private static JsonElement json(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof Number || value instanceof Boolean || value instanceof String) {
            return GSON.toJsonTree(value);
        }
        if (value instanceof Collection) {
            JsonArray array = new JsonArray();
            ((Collection<?>) value).forEach(v -> array.add(json(v)));
            return array;
        }
        return new JsonPrimitive(value.toString());
    }
}
