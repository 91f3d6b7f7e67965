-- Acquire a read lock, or reenter it. Idempotent.
-- USES  acquire_read held foreign clock writers rwmutex listeners pause
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 lease time in ms
--       2 owner
--       3 1 if the reader waits if it is refused
--       4 hold count of the owner afterwards: 1, or more to reenter; or nothing for 1
--       5 the writer's field under which it may read, or nothing
-- RETURN  > 0   acquired; a token not below that of any earlier writer
--         <= 0  held by a writer, or a waiting writer has priority, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local found = redis.call('hmget', KEYS[1], 'mode', ARGV[2])
local mode, value = found[1], found[2]
local count, own = tonumber(ARGV[4] or 1), KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:'
if count > DEPTH then
  return redis.error_reply('ERR the read lock ' .. KEYS[1] .. ' can be entered ' .. DEPTH .. ' times: release it before you enter it again')
end
if count > 1 then
  -- The hash may outlive the hold of a reader. The reader is alive if one of its own keys exists.
  local holds = value and depth(value)
  if value and not holds then return foreign(KEYS[1]) end
  local alive = false
  for i = holds or 0, 1, -1 do
    alive = redis.call('exists', own .. i) == 1
    if alive then break end
  end
  if not alive then return -1 end
elseif not value then
  if ttl ~= -2 and mode ~= 'read' and (not ARGV[5] or redis.call('hexists', KEYS[1], ARGV[5]) == 0) then
    return held(ttl) -- also if the key is a lock of another kind
  end
  if mode == 'read' and not joinable(KEYS[1], ttl) then return foreign(KEYS[1]) end
  if mode ~= 'write' and redis.call('exists', priority) == 1 then
    local ms = first(priority, clock())
    if ms > 0 then return held(ms) end
  end
  if mode == 'read' and ARGV[3] == '1' then
    local ms = pause(clock(), KEYS[2])
    if ms > 0 then return held(ms) end
  end
  if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
end
redis.call('hset', KEYS[1], ARGV[2], count)
-- The lock comes before the reader's key, see lib/acquire_read.lua.
if ttl < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end
if not value or redis.call('pttl', own .. count) < tonumber(ARGV[1]) then redis.call('set', own .. count, '1', 'px', ARGV[1]) end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
