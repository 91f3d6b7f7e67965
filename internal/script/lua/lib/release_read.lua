-- The release of a read lock that its owner holds once, if no other reader is left, or if one certainly is. It precedes all functions,
-- since these cost as much as its commands.
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 owner
--       2 hold count of the owner afterwards
--       3 PUBLISH or SPUBLISH
--       4 a random number from 0 to 99, if clients queue
local channel = 'redisson_rwlock:' .. KEYS[2] -- of clients that do not queue
local writers = 'holdfast:writers:' .. KEYS[2] -- the waiting writers that have priority
local publish, lot, message, message2 = ARGV[3], ARGV[4], '0', nil
local SLACK = 1000 -- ms by which the lock may outlast its last reader, but not by more than a tenth of its TTL
local found = redis.call('hmget', KEYS[1], ARGV[1], 'mode')
if not found[1] then return 0 end
local own, freed = KEYS[2] .. ':' .. ARGV[1] .. ':rwlock_timeout:1', false
if found[1] == '1' and found[2] == 'read' and ARGV[2] == '0' then
  if redis.call('hlen', KEYS[1]) == 2 then
    redis.call('unlink', own, KEYS[1]) -- the keys of a reader belong to it, whatever they contain
    freed = true
  else
    local ttl, mine = redis.call('pttl', KEYS[1]), redis.call('pttl', own)
    local stays = mine + SLACK < ttl -- another reader lasts longest
    -- Or another reader lasts almost as long as the lock, and then the lock keeps its TTL. To look at all readers would cost a command for
    -- each of them. A reader that lasts longer than the lock shows that Redisson has shortened the TTL, which lib/read.lua repairs. Redis
    -- 6.0 does not support HRANDFIELD.
    local some = not stays and ttl > 0 and mine <= ttl + 10 and redis.pcall('hrandfield', KEYS[1], 3, 'withvalues') or {}
    for i = 1, #some, 2 do
      local theirs = some[i] ~= ARGV[1] and some[i + 1] == '1' and redis.call('pttl', KEYS[2] .. ':' .. some[i] .. ':rwlock_timeout:1') or 0
      stays = theirs <= ttl and theirs >= ttl - math.min(SLACK, ttl / 10)
      if stays then break end
    end
    if stays then
      redis.call('unlink', own)
      redis.call('hdel', KEYS[1], ARGV[1])
      return 1
    end
  end
end
