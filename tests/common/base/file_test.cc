#include "common/base/file.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/base/temp_folder.h"

extern char** environ;

namespace tally {
namespace {

using testing::StatusIs;
using testing::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(File, ErrorsCarryPathAndCode) {
  EXPECT_THAT(ErrnoStatus(ENOSPC, "writing", "/x"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "writing /x: No space left on device"));
  EXPECT_THAT(ReadFile("/nowhere/x"), StatusIs(absl::StatusCode::kNotFound,
                                               "opening /nowhere/x: No such file or directory"));
}

TEST(File, AtomicWriteReplaces) {
  const TempFolder folder;
  const std::string path = folder.File("f");
  const std::string large(300000, 'x');
  TALLY_ASSERT_OK(WriteFileAtomically(path, "first"));
  TALLY_ASSERT_OK(WriteFileAtomically(path, large));
  EXPECT_EQ(*ReadFile(path), large);
  TALLY_ASSERT_OK(WriteFileAtomically(path, ""));
  EXPECT_EQ(*ReadFile(path), "");
  EXPECT_THAT(folder.Names(), ElementsAre("f"));
}

// The rename fails, as a folder stands there.
TEST(File, AtomicWriteThatFailsLeavesWhatWasThere) {
  const TempFolder folder;
  TALLY_ASSERT_OK(MakeFolders(folder.File("f/inner")));
  EXPECT_THAT(WriteFileAtomically(folder.File("f"), "new"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr(folder.File("f"))));
  EXPECT_THAT(folder.Names(), ElementsAre("f"));
  TALLY_EXPECT_OK(SyncFolder(folder.File("f/inner")));
}

TEST(File, AtomicWriteIntoNoFolder) {
  EXPECT_THAT(WriteFileAtomically("/nowhere/f", "x"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/f")));
}

TEST(File, FoldersAreMadeAndRemovedWithAllInThem) {
  const TempFolder folder;
  TALLY_ASSERT_OK(MakeFolders(folder.File("a/b/c")));
  TALLY_ASSERT_OK(MakeFolders(folder.File("a/b/c")));
  TALLY_ASSERT_OK(WriteFileAtomically(folder.File("a/b/c/f"), "x"));
  TALLY_ASSERT_OK(RemoveTree(folder.File("a")));
  TALLY_ASSERT_OK(RemoveTree(folder.File("a")));
  EXPECT_THAT(folder.Names(), ElementsAre());
  TALLY_ASSERT_OK(WriteFileAtomically(folder.File("f"), "x"));
  EXPECT_FALSE(MakeFolders(folder.File("f/g")).ok());
}

TEST(FileDescriptor, MovesAndCloses) {
  FileDescriptor first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(first.valid());
  const int raw = first.get();
  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): what a move leaves is the point
  EXPECT_EQ(second.get(), raw);
  second = FileDescriptor();
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
}

TEST(MappedFile, ReadsAndWrites) {
  const TempFolder folder;
  const std::string path = folder.File("f");
  TALLY_ASSERT_OK(WriteFileAtomically(path, "hello"));
  {
    TALLY_ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::OpenReadWrite(path));
    file->mutable_data()[0] = 'j';
    TALLY_ASSERT_OK(file->Sync());
  }
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::OpenReadOnly(path));
  EXPECT_EQ(file->bytes(), "jello");
  EXPECT_EQ(file->mutable_data(), nullptr);
}

TEST(MappedFile, EmptyMissingAndFolder) {
  const TempFolder folder;
  TALLY_ASSERT_OK(WriteFileAtomically(folder.File("empty"), ""));
  TALLY_ASSERT_OK_AND_ASSIGN(const auto file, MappedFile::OpenReadOnly(folder.File("empty")));
  EXPECT_EQ(file->size(), 0u);
  TALLY_EXPECT_OK(file->Sync());
  EXPECT_THAT(MappedFile::OpenReadOnly(folder.File("none")),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(folder.File("none"))));
  EXPECT_THAT(MappedFile::OpenReadOnly(folder.path()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(FileLock, SecondHolderIsNamedTheFirst) {
  const TempFolder folder;
  const std::string path = folder.File("lock");
  {
    TALLY_ASSERT_OK_AND_ASSIGN(const FileLock lock, FileLock::Acquire(path));
    EXPECT_THAT(FileLock::Acquire(path),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         absl::StrCat(path, ": locked by process ", ::getpid())));
  }
  TALLY_EXPECT_OK(FileLock::Acquire(path));
}

// Another process, flock(1), that takes the lock, says so, and holds it until its standard input
// ends.
class LockingProcess {
 public:
  explicit LockingProcess(const std::string& path) {
    int to_child[2];
    int from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) {
      ADD_FAILURE() << "no pipes";
      return;
    }
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
    std::string script = "printf $$ > \"$0\"; echo locked; read line";
    std::string program = "flock";
    std::string target = path;
    char* arguments[] = {program.data(), target.data(), const_cast<char*>("sh"),
                         const_cast<char*>("-c"), script.data(), target.data(), nullptr};
    EXPECT_EQ(::posix_spawnp(&pid_, "flock", &actions, nullptr, arguments, environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(to_child[0]);
    ::close(from_child[1]);
    input_ = FileDescriptor(to_child[1]);
    char byte;
    EXPECT_EQ(::read(from_child[0], &byte, 1), 1) << "the child never locked";
    ::close(from_child[0]);
  }
  void End() {
    input_ = FileDescriptor();
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  }

 private:
  pid_t pid_ = -1;
  FileDescriptor input_;
};

TEST(FileLock, AnotherProcessKeepsUsOutUntilItEnds) {
  const TempFolder folder;
  const std::string path = folder.File("lock");
  LockingProcess other(path);
  EXPECT_THAT(FileLock::Acquire(path),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("locked by process ")));
  other.End();
  TALLY_EXPECT_OK(FileLock::Acquire(path));
}

}  // namespace
}  // namespace tally
