-- The usual request for a mutex that another owner holds. It precedes the functions for a grant.
-- KEYS  1 the lock
-- ARGV  1 lease time in ms
--       2 owner
--       4 how many may queue, '' without a limit; 5 1 to check the rights
local ttl = redis.call('pttl', KEYS[1])
local held = ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1 and redis.call('hexists', KEYS[1], 'mode') == 0 -- 1: a read/write lock
if ttl ~= -2 and not held then
  return enqueue(ARGV[2] .. (#KEYS == 3 and ':fenced' or ''), ARGV[1], ttl, ARGV[4], ARGV[5]) -- a fenced mutex has a counter
end
