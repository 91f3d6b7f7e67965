-- The usual request for permits of a semaphore: enough are free, and the mark is that of an earlier request or does not exist. It
-- precedes all functions, since these cost a request as much as its commands. In all other cases it writes nothing.
-- KEYS, ARGV and RETURN are those of semaphore_acquire. KEYS 3 may be the spent mark of another object, see remember.
local mark, free = redis.call('get', KEYS[2]), redis.call('get', KEYS[1])
local last = mark and string.match(mark, '^(%d+) ')
if free and #free <= 15 and string.find(free, '^[1-9]%d*$') and tonumber(free) >= tonumber(ARGV[1])
  and (not mark or last and tonumber(last) < tonumber(ARGV[2])) then
  -- The mark precedes the permits, because a server that is out of memory refuses the first write only. The user may lack permission
  -- for DECRBY. A mark without permits must not result.
  redis.call('set', KEYS[2], ARGV[2] .. ' taken', 'px', ARGV[3])
  local left = redis.pcall('decrby', KEYS[1], ARGV[1])
  if type(left) ~= 'number' then
    redis.call('set', KEYS[2], ARGV[2] .. ' failed', 'px', ARGV[3])
    return left
  end
  if KEYS[3] then redis.call('unlink', KEYS[3]) end
  return 1
end
