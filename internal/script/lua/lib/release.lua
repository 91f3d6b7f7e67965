-- The usual release of permits of a semaphore: it exists, its number can be read, and the mark is that of an earlier request or does
-- not exist. It precedes all functions, since these cost a request as much as its commands. In all other cases it writes nothing.
-- KEYS, ARGV and RETURN are those of semaphore_release. KEYS 4 may be the spent mark of another object, see remember.
local mark, free = redis.call('get', KEYS[2]), redis.call('get', KEYS[1])
local last = mark and string.match(mark, '^(%d+) ')
if free and #free <= 15 and (free == '0' or string.find(free, '^-?[1-9]%d*$'))
  and (not mark or last and tonumber(last) < tonumber(ARGV[2])) then
  local total = redis.pcall('incrby', KEYS[1], ARGV[1])
  if type(total) == 'number' then -- else the server may be out of memory
    redis.call('set', KEYS[2], ARGV[2] .. ' done', 'px', ARGV[3])
    if KEYS[4] then redis.call('unlink', KEYS[4]) end
    local heard = redis.pcall(ARGV[4], KEYS[3], total) -- the change is made even if the user may not publish
    return 1 + (type(heard) == 'number' and heard or 0)
  end
end
