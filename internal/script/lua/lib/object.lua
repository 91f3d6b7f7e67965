-- The keys of an object.
-- KEYS  1 the mark of the request series, which stores the reply
-- ARGV  1 their types, in their order
--       2 and 3 number of the request, and how long to keep the mark in ms
local PROBE = {string = 'strlen', hash = 'hlen', list = 'llen', zset = 'zcard'}
local types = {}
for t in string.gmatch(ARGV[1], '%a+') do types[#types + 1] = t end

-- present reports whether any of the keys from KEYS[first] on exists. It fails on a key of another type, which belongs to another
-- program.
local function present(first)
  local found = false
  for i, t in ipairs(types) do
    local key = KEYS[first + i - 1]
    if redis.call(PROBE[t], key) > 0 and t == 'hash' then
      local f = redis.call('hmget', key, 'rate', 'interval', 'sec', 'seq')
      if not (f[1] and f[2] or f[3] and f[4]) then
        error('the key ' .. key .. ' does not hold a rate limiter or time ids: use another name, or check which program writes the key', 0)
      end
    end
    found = found or redis.call('exists', key) == 1
  end
  return found
end

-- answer stores the reply to the request and returns it.
local function answer(reply)
  -- A server that is out of memory refuses SET, unless the script has written already.
  redis.call('pexpire', KEYS[1], ARGV[3])
  remember(KEYS[1], ARGV[2], reply, ARGV[3])
  return reply
end

-- answered returns the stored reply to the request.
local function answered(known)
  local reply = told(KEYS[1], known)
  if #reply > 2 or math.abs(tonumber(reply)) > 1 then error('the key ' .. KEYS[1] .. ' does not hold the mark of a request: delete it', 0) end
  return tonumber(reply)
end
