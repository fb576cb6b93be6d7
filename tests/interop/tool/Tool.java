package hiveacid;

import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.MetaStoreThread;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessor;
import org.apache.hadoop.hive.ql.processors.CommandProcessorFactory;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * Apache Hive in this process: a session, its metastore in Derby, one compactor.
 *
 * <pre>
 * Tool DIR init                     make the metastore
 * Tool DIR run SCRIPT ANSWERS       statements, on after an error; !snap writes below ANSWERS
 * Tool DIR record FILE.sql ...      write FILE.out: what Hive answers, each script in a database of its own
 * </pre>
 *
 * Beside SQL a script may hold: {@code !worker}, {@code !cleaner}, {@code !compact TABLE KIND [KEY=VALUE/...]},
 * {@code !db SQL} (on the metastore's database), {@code !cp FROM TO}, {@code !echo TEXT}, {@code !hook fail|halt|off}
 * (between the tasks of a statement and its commit), {@code !stream TABLE N key=value ...}, {@code !snap NAME TABLE
 * [COLUMNS]}, {@code !halt}.
 */
public final class Tool {
  static final boolean FOUR = System.getProperty("tool.version").startsWith("4");
  static PrintStream out = System.out;
  static HiveConf conf;
  private static Path answers;

  private Tool() {}

  public static void main(String[] arguments) throws Exception {
    if (!FOUR && !(Tool.class.getClassLoader() instanceof URLClassLoader)) {
      beginWithUrlLoader(arguments);
      return;
    }
    Path directory = Path.of(arguments[0]).toAbsolutePath().normalize();
    System.setOut(System.err); // whatever Hive prints is no result
    conf = Config.load(directory);
    Schema.ensure(Path.of(System.getProperty("tool.schema")), FOUR);
    if (arguments[1].equals("init")) end(0);
    startSession();
    if (arguments[1].equals("record")) {
      for (String script : Arrays.copyOfRange(arguments, 2, arguments.length)) Recorder.record(Path.of(script), directory);
      end(0);
    }
    answers = Path.of(arguments[3]);
    int status = 0;
    for (String statement : Script.split(Files.readString(Path.of(arguments[2])))) {
      try {
        execute(statement);
      } catch (Throwable error) {
        out.println("ERROR\t" + Script.told(error));
        status = 1;
      }
    }
    end(status);
  }

  /** Hive 3.1 takes its class loader for one of URLs. */
  private static void beginWithUrlLoader(String[] arguments) throws Exception {
    List<URL> urls = new ArrayList<>();
    for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) urls.add(new File(entry).toURI().toURL());
    ClassLoader loader = new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    loader.loadClass("hiveacid.Tool").getMethod("main", String[].class).invoke(null, (Object) arguments);
  }

  /** Ends the process: threads of Tez and of the metastore need no farewell, Derby recovers from its log. */
  static void end(int status) {
    out.flush();
    Runtime.getRuntime().halt(status);
  }

  static HiveConf sessionConf() {
    return SessionState.get().getConf();
  }

  private static void startSession() throws Exception {
    SessionState session = new SessionState(new HiveConf(conf));
    session.initTxnMgr(session.getConf());
    SessionState.start(session);
    for (String name : new String[] {"out", "err", "info"}) { // of another class in each version
      var field = SessionState.class.getField(name);
      field.set(session, field.getType().getConstructor(OutputStream.class).newInstance(System.err));
    }
    session.setIsSilent(true);
  }

  private static void execute(String statement) throws Exception {
    if (!statement.startsWith("!snap")) Snapshot.history.add(statement.replaceAll("\\s+", " "));
    if (statement.startsWith("!")) {
      command(statement.substring(1).strip());
    } else {
      run(statement, out::println);
    }
  }

  private static void command(String text) throws Exception {
    String[] words = text.split("\\s+");
    String rest = text.substring(words[0].length()).strip();
    switch (words[0]) {
      case "worker" -> compactor(new Worker());
      case "cleaner" -> compactor(new Cleaner());
      case "compact" -> compact(words[1], words[2], words.length > 3 ? words[3] : "");
      case "db" -> Schema.run(rest).forEach(out::println);
      case "cp" -> copy(Path.of(words[1]), Path.of(words[2]));
      case "echo" -> out.println(rest);
      case "hook" -> Breaking.how = words[1];
      case "stream" -> Streaming.batch(words);
      case "snap" -> Snapshot.take(answers.resolve(words[1]), words[2], rest.split("\\s+", 3).length > 2 ? rest.split("\\s+", 3)[2] : "t.*");
      case "halt" -> end(0);
      default -> throw new IllegalArgumentException("unknown command !" + words[0]);
    }
  }

  /** Runs SQL; the header, if any, and the rows go to {@code told}. Returns the header, null without a result. */
  static String run(String sql, Consumer<String> told) throws Exception {
    String[] words = sql.split("\\s+");
    CommandProcessor processor = CommandProcessorFactory.get(words, sessionConf());
    if (!(processor instanceof IDriver)) {
      processor.run(sql.substring(words[0].length()).strip());
      return null;
    }
    IDriver driver = DriverFactory.newDriver(sessionConf());
    try {
      Object response = driver.run(sql);
      if (!FOUR) throwIfFailed(response);
      if (driver.getSchema() == null || driver.getSchema().getFieldSchemas() == null) return null;
      List<String> rows = new ArrayList<>();
      while (driver.getResults(rows)) {
        for (Object row : rows) told.accept(String.valueOf(row));
        rows.clear();
      }
      List<String> names = new ArrayList<>();
      driver.getSchema().getFieldSchemas().forEach(field -> names.add(field.getName()));
      return names.isEmpty() ? null : String.join("\t", names);
    } finally {
      driver.close();
      driver.destroy();
    }
  }

  /** Hive 3.1 returns a code where 4.1 throws. */
  private static void throwIfFailed(Object response) throws Exception {
    int code = (Integer) response.getClass().getMethod("getResponseCode").invoke(response);
    Object message = response.getClass().getMethod("getErrorMessage").invoke(response);
    if (code != 0) throw new IllegalStateException("[" + code + "] " + message);
  }

  private static void compact(String table, String kind, String partition) throws Exception {
    String which = partition.isEmpty() ? "" : " partition (" + partition.replaceAll("=([^/]*)/?", "='$1',").replaceAll(",$", "") + ")";
    run("alter table " + table + which + " compact '" + kind + "'", line -> {});
    compactor(new Worker());
  }

  /** One pass of a thread of the compactor, in a thread of its own with settings of its own. */
  static void compactor(MetaStoreThread thread) throws Exception {
    HiveConf own = new HiveConf(sessionConf());
    own.set("hive.exec.post.hooks", "");
    Throwable[] failed = new Throwable[1];
    Thread runner = new Thread(() -> {
      try {
        thread.setConf(own);
        for (var method : MetaStoreThread.class.getMethods()) {
          if (method.getName().equals("setThreadId")) method.invoke(thread, 1);
        }
        for (var method : MetaStoreThread.class.getMethods()) {
          if (!method.getName().equals("init")) continue;
          Object[] flags = new Object[method.getParameterCount()];
          for (int n = 0; n < flags.length; n++) flags[n] = new AtomicBoolean(n == 0);
          method.invoke(thread, flags);
        }
        ((Thread) (Object) thread).run();
      } catch (Throwable error) {
        failed[0] = error;
      }
    });
    SessionState session = SessionState.get();
    runner.start();
    runner.join();
    SessionState.setCurrentSessionState(session);
    if (failed[0] != null) failed[0].printStackTrace();
  }

  static void copy(Path from, Path to) throws Exception {
    List<Path> paths;
    try (Stream<Path> all = Files.walk(from)) {
      paths = all.toList();
    }
    for (Path path : paths) {
      Path target = to.resolve(from.relativize(path).toString());
      if (Files.isDirectory(path)) {
        Files.createDirectories(target);
      } else {
        Files.createDirectories(target.getParent());
        Files.copy(path, target, StandardCopyOption.REPLACE_EXISTING);
      }
    }
  }

  /** Where Hive looks for its settings, parts of it by themselves. */
  static void writeSite(Configuration site) throws Exception {
    try (OutputStream file = new FileOutputStream(new File(System.getProperty("tool.conf"), "hive-site.xml"))) {
      site.writeXml(file);
    }
  }

  static void write(Path path, String text) throws Exception {
    Files.write(path, text.getBytes(StandardCharsets.UTF_8));
  }
}
